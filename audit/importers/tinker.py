"""tinker-cookbook: ``<log_path>/iteration_{i:06d}/train_rollout_summaries.jsonl``, joined with ``capture/``.

Read: tinker_cookbook/rl/{rollout_logging,train,types}.py and stores/training_store.py of the released 0.6.1.
A line is a trajectory: rewards and lengths of its turns, and no text. Iterations start at 0; ``group_idx`` is
the place among the groups that are left. With ``capture`` on, token ids and log-probs are joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from audit.importers.finish import finish_reason
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.tinker_capture import FILE, MASKED, Captured, Turn, pieces_of, sampled_steps, steps_of
from audit.importers.values import OddValue, integer, number
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt

_FOLDER = re.compile(r"iteration_(\d+)")
_SUFFIX = "_rollout_summaries.jsonl"
_TRAIN = f"train{_SUFFIX}"
_KEYS = {"iteration", "group_idx", "traj_idx", "total_reward", "steps"}
_STOPS = {
    **dict.fromkeys(("max_turns", "max_sampled_tokens", "max_tool_calls", "context_overflow"), "length"),
    "rollout_timeout": "abort",
    "parse_error": "abort",
    "tool_stopped": "stop",
}
NO_PROMPT = "prompts were not logged: every group stands for a prompt of its own"


def detect(path: Path) -> Detection | None:
    """Take a ``log_path``, an iteration or one of its files."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            fits = record.keys() >= _KEYS
            return Detection(0.97, f"keys iteration, group_idx, traj_idx in {file.name}") if fits else None
    return None


def units(path: Path) -> list[Unit]:
    """Every iteration is one; with captured samples, which are in one file, all together are."""
    files = _files(path)
    if not files:
        return []
    captured = root_of(files[0]) / FILE
    if captured.is_file():
        return [Unit(FILE, (*files, captured))]
    return [Unit(f"{file.parent.name}/{file.name}", (file,)) for file in files]


def root_of(file: Path) -> Path:
    """Return the ``log_path`` of a file of summaries."""
    return file.parent.parent if _FOLDER.fullmatch(file.absolute().parent.name) else file.parent


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read the iterations of a unit."""
    del source
    captured = Captured(unit.files[-1], book) if unit.files[-1].name == Path(FILE).name else None
    for file in unit.files[: len(unit.files) - (captured is not None)]:
        if file.name != _TRAIN:
            book.note("evaluation samples: no update was made from these rows")
        yield from _iteration(file, captured, book)


def _iteration(file: Path, captured: Captured | None, book: Book) -> Iterator[Row]:
    held = []
    for record in records(file, book):
        try:
            held.append((_own(record), record))
        except OddValue as odd:
            book.reject(str(odd))
    groups = [list(each) for _, each in groupby(held, key=lambda pair: pair[0]["group_id"])]
    turns: list[list[list[Turn]] | None] = [None] * len(groups)
    if captured is not None and held:
        split = str(held[0][1].get("split") or "train")
        turns = captured.of(held[0][0]["step"], split, [[record for _, record in each] for each in groups])
    for group, found in zip(groups, turns, strict=True):
        first = next((turns_[0].prompt for turns_ in found or () if turns_), None)
        if first is None:
            book.note(NO_PROMPT)
        for place, (own, record) in enumerate(group):
            asked = own["group_id"] if first is None else hash_prompt(" ".join(map(str, first)))
            yield from _rows(own | {"prompt_id": asked}, record, found[place] if found else None, book)


def _own(record: Mapping[str, Any]) -> Row:
    """Columns that every row of a trajectory has."""
    step = integer(record.get("iteration"), "iteration")
    group = integer(record.get("group_idx"), "group_idx")
    if step is None or group is None:
        raise OddValue("no iteration or group_idx")
    split = record.get("split") or "train"
    steps = steps_of(record)
    rewards = [number(each.get("reward"), "reward") for each in steps]
    final = number(record.get("final_reward"), "final_reward")
    version = integer(record.get("sampling_client_step"), "sampling_client_step")
    return {
        "step": step,
        "group_id": f"{split}/{step}:{group}",
        "reward": number(record.get("total_reward"), "total_reward"),
        "reward_components": {
            "steps": float(sum(each for each in rewards if each is not None)),
            "final": 0.0 if final is None else final,
        },
        "finish_reason": _stop(steps),
        "policy_version": step if split == "train" and version is not None else None,
        "sampler_version": version,
        "extra": {
            "trajectory": f"{split}/{step}:{group}/{record.get('traj_idx')}",
            **{name: record.get(name) or None for name in ("tags", "trajectory_metrics", "steps")},
        },
    }


def _rows(own: Row, record: Mapping[str, Any], turns: list[Turn] | None, book: Book) -> Iterator[Row]:
    steps = steps_of(record)
    if not turns:
        try:
            lengths = [integer(each.get("ac_len"), "ac_len") for each in steps]
        except OddValue as odd:
            book.reject(str(odd))
            return
        yield own | {
            "prompt_length": steps[0].get("ob_len") if steps else None,
            "length": sum(each for each in lengths if each is not None) if lengths else None,
        }
        return
    masked = [bool(_metrics(each).get(MASKED)) for each in sampled_steps(record)]
    pieces = pieces_of(turns, masked)
    for place, piece in enumerate(pieces):
        more: Row = {} if len(pieces) == 1 else {"trajectory_id": own["extra"]["trajectory"]}
        reason = own["finish_reason"] if place == len(pieces) - 1 else None
        yield (
            own
            | more
            | piece.columns
            | {
                "prompt_length": len(piece.prompt),
                "finish_reason": reason or finish_reason(piece.last.reason),
                "created_at": piece.last.created or None,
            }
        )


def _metrics(step: Mapping[str, Any]) -> Mapping[str, Any]:
    found = step.get("metrics")
    return found if isinstance(found, Mapping) else {}


def _stop(steps: list[Row]) -> str | None:
    """Return why a trajectory ended: the one-hot ``stop/<reason>`` of its last turn."""
    told = (
        [name for name, value in _metrics(steps[-1]).items() if name.startswith("stop/") and value]
        if steps
        else []
    )
    reason = told[0].removeprefix("stop/") if told else None
    return None if reason is None else _STOPS.get(reason) or finish_reason(reason)


def manifest(path: Path) -> Manifest:
    """Read the run.json or ``config.json`` of the run."""
    files = _files(path)
    return manifest_near(
        root_of(files[0]) if files else path,
        "tinker-cookbook",
        having("loss_fn", "learning_rate", "kl_penalty_coef", "dataset_builder"),
        options={"group_size": "dataset_builder.group_size", "model": "model_name", **_SAMPLING},
    )


_SAMPLING = {"sampling.temperature": "temperature", "sampling.max_tokens": "max_tokens"}


def _files(path: Path) -> list[Path]:
    """Summaries of training, else of one kind of evaluation alone."""
    try:
        if path.is_file():
            return [path] if path.name.endswith(_SUFFIX) else []
        places = [path] if _FOLDER.fullmatch(path.absolute().name) else list(path.glob("iteration_*"))
        for name in (_TRAIN, f"*{_SUFFIX}"):
            found = [file for place in places for file in place.glob(name) if file.is_file()]
            if found:
                return in_numeric_order(found)
    except (OSError, ValueError):
        pass
    return []


IMPORTER = Importer(
    name="tinker-cookbook",
    title="tinker-cookbook: iteration_*/train_rollout_summaries.jsonl, joined with capture/sample.jsonl",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    cannot="no text and no log-probs of the trainer; token ids and sampler log-probs only with capture",
    holds=(
        *("prompt_length", "length", "reward", "reward_components", "finish_reason", "sampler_version"),
        *("policy_version", "token_ids", "loss_mask", "logp_sampler", "trajectory_id", "created_at", "extra"),
    ),
)
