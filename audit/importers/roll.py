"""ROLL: ``rollout_dump_dir`` → ``rollout_dump_data.step_{N}.jsonl``, one line a step.

Read: roll/pipeline/rlvr/utils.py and roll/pipeline/agentic/{utils.py,env_manager/agent_native_env_manager.py}
at 8eb27cc2d (2026-08-19, 0.3.0). The line is an object of lists: responses and scores with what the data set
brings (RLVR), or trajectories as JSON in text (agentic), where the last step of each holds it and the others
hold null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, number, text
from audit.logs.manifest import Manifest

_NAME = re.compile(r"rollout_dump_data\.step_(\d+)\.jsonl(?:\.gz)?")
_OWN = {"global_step", "id", "prompt", "messages", "responses", "scores", "sampling_params"}
_STEP = "a step of a trajectory, which is logged with its last"
OPTIONS = {
    "group_size": "num_return_sequences_in_group",
    "model": "pretrain",
    "seed": "seed",
    "sampling.temperature": "actor_infer.generating_args.temperature",
    "sampling.top_p": "actor_infer.generating_args.top_p",
    "sampling.max_tokens": "response_length",
}
fits = having("num_return_sequences_in_group", "actor_infer.generating_args")


def detect(path: Path) -> Detection | None:
    """Take the dump's folder, or one of its files."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            known = "responses" in record or "trajectory_data" in record
            return Detection(0.95, f"lists of a step in {file.name}") if known else None
    return None


def units(path: Path) -> list[Unit]:
    """Every step is a file of its own."""
    return [Unit(file.name, (file,)) for file in _files(path)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step."""
    del source
    file = unit.files[0]
    named = _NAME.fullmatch(file.name)
    for record in records(file, book):
        sizes = {len(value) for value in record.values() if isinstance(value, list)}
        if len(sizes) != 1 or not (count := sizes.pop()):
            book.reject("line holds no lists of one length")
            continue
        for at in range(count):
            one = {name: value[at] if isinstance(value, list) else value for name, value in record.items()}
            step = one.get("global_step", named[1] if named else None)
            try:
                yield _trajectory(one, step, book) if "trajectory_data" in record else _row(one, step)
            except OddValue as odd:
                book.reject(str(odd))


def manifest(path: Path) -> Manifest:
    """Read the run.json or the config (trackers keep it) near the log."""
    return manifest_near(path, "roll", fits, options=OPTIONS)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if _NAME.fullmatch(path.name) else []
    try:
        return in_numeric_order([f for f in path.iterdir() if _NAME.fullmatch(f.name) and f.is_file()])
    except OSError:
        return []


def _row(one: Row, step: Any) -> Row:
    name = one.get("id")
    prompt = one.get("prompt") if one.get("prompt") is not None else _parsed(one.get("messages"))
    return {
        "step": step,
        "group_id": None if name in (None, "") else f"{step}:{name}",
        "prompt": prompt,
        "response": one.get("responses"),
        "reward": number(one.get("scores"), "scores"),
        "extra": {key: value for key, value in one.items() if key not in _OWN},
    }


def _trajectory(one: Row, step: Any, book: Book) -> Row:
    if one["trajectory_data"] is None:
        raise OddValue(_STEP)
    held = _parsed(one["trajectory_data"])
    messages = _flat(_parsed(one.get("messages")))
    if not isinstance(held, dict) or not messages:
        raise OddValue("trajectory_data and messages hold no trajectory")
    where, rewards, ends = (_part(held, f"{name}_info") for name in ("env", "reward", "length"))
    if where.get("mode") not in (None, "train"):
        book.note(f"trajectories of mode {str(where['mode'])[:20]}: no update was made from these rows")
    place = [where.get(name) for name in ("tag", "group_id", "episode_id", "seed")]
    first = next((at for at, each in enumerate(messages) if each.get("role") == "assistant"), len(messages))
    cut = ends.get("truncated") is True
    return {
        "step": step,
        "group_id": f"{step}:{'_'.join(map(str, place))}" if place[1] is not None else None,
        "prompt": text(messages[:first]),
        "response": text(messages[first:]),
        "reward": number(rewards.get("episode_reward"), "episode_reward"),
        "finish_reason": "length" if cut else "stop" if ends.get("terminated") is True else None,
        "extra": {name: held.get(name) for name in ("trajectory_id", "metrics", "failure_info")},
    }


def _part(held: Row, name: str) -> Row:
    found = held.get(name)
    return found if isinstance(found, dict) else {}


def _parsed(value: Any) -> Any:
    """Take JSON out of text; other text stays."""
    if not isinstance(value, str) or value[:1] not in "[{":
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _flat(found: Any) -> list[Row]:
    """Messages; of a list for every step the last holds all."""
    while isinstance(found, list) and found and isinstance(found[-1], list):
        found = found[-1]
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


IMPORTER = Importer(
    name="roll",
    title="ROLL: rollout_dump_dir (rollout_dump_data.step_*.jsonl)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="blocks",
    cannot="no token ids, masks, log-probs and advantages, and of RLVR no finish reasons",
    holds=("prompt", "response", "reward", "finish_reason", "extra"),
)
