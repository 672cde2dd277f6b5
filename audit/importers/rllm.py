"""rLLM: ``log_episodes`` → ``episodes/{train|val}_step_{s}_epoch_{e}/episode_hash….json``.

Read: rllm/utils/episode_logger.py, rllm/types.py and rllm/trainer/algorithms/transform.py at 9beb6e0f
(2026-08-15). A file is an episode with its trajectories. A trajectory whose conversation grows from step to
step is one row, another is a row a step. As in the trainer, trajectories of one task and name share a group.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from audit.importers.finish import finish_reason
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import TOO_DEEP, too_deep
from audit.importers.near import having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue, flag, number, text
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt

_FOLDER = re.compile(r"(?P<mode>train|val)_step_(?P<step>\d+)_epoch_\d+")
_NAME = re.compile(r"episode_hash(?P<hash>[0-9a-f]+)_id(?P<task>.*?)(?:_(?P<rollout>\d+))?\.json")
_LONGEST = 2**28
"""Bytes of an episode."""
_ENDS = {
    "env_done": "stop",
    "max_turns_exceeded": "length",
    "max_prompt_length_exceeded": "length",
    "max_response_length_exceeded": "length",
    "unknown": None,
}
_OPTIONS = {
    "group_size": "actor_rollout_ref.rollout.n",
    "model": "actor_rollout_ref.model.path",
    "sampling.temperature": "actor_rollout_ref.rollout.temperature",
    "sampling.top_p": "actor_rollout_ref.rollout.top_p",
    "sampling.max_tokens": "data.max_response_length",
}


def detect(path: Path) -> Detection | None:
    """Take ``episodes``, the log folder that holds it, one of its steps, or one of its files; by names."""
    found = next(iter(_steps(path).values()), [])
    return Detection(0.95, f"{found[0].name} of rLLM") if found else None


def units(path: Path) -> list[Unit]:
    """One a step: there is a file for every episode. Beside steps of training, validation is left out."""
    return [Unit(folder.name, tuple(files)) for folder, files in _steps(path).items()]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read the episodes of one step."""
    folder = unit.files[0].parent
    if folder.name.startswith("val"):
        book.note("validation samples: no update was made from these rows")
    elif not source.path.is_file() and any(folder.parent.glob("val_step_*")):
        book.note("val_step_* beside it are validation samples, left out here: open one by its name")
    tasks = _tasks(unit.files)
    for file in unit.files:
        episode = _episode(file, book)
        if episode is None:
            continue
        trajectories = episode.get("trajectories")
        if not isinstance(trajectories, list) or not trajectories:
            book.reject("episode without trajectories")
            continue
        for place, trajectory in enumerate(trajectories):
            try:
                yield from _trajectory(
                    episode, trajectory, f"{file.stem}:{place}", tasks[file], _step_of(file)
                )
            except OddValue as odd:
                book.reject(str(odd))


def manifest(path: Path) -> Manifest:
    """Read the run.json or Hydra's config near the log."""
    return manifest_near(
        path,
        "rllm",
        having("rllm.algorithm", "rllm.episode_logging"),
        options=_OPTIONS,
        length_unit="characters",
    )


def _steps(path: Path) -> dict[Path, list[Path]]:
    """Files by step; those of validation only where there is no training."""
    try:
        if path.is_file():
            return {path: [path]} if _NAME.fullmatch(path.name) else {}
        if _FOLDER.fullmatch(path.name):
            folders = [path]
        else:
            places = (each for each in (path, path / "episodes") if each.is_dir())
            inside = (f for place in places for f in place.iterdir())
            named = [f for f in inside if _FOLDER.fullmatch(f.name) and f.is_dir()]
            folders = [f for f in named if f.name.startswith("train")] or named
        found = {folder: _episodes(folder) for folder in in_numeric_order(folders)}
    except OSError:
        return {}
    return {folder: files for folder, files in found.items() if files}


def _episodes(folder: Path) -> list[Path]:
    return in_numeric_order([f for f in folder.iterdir() if _NAME.fullmatch(f.name) and f.is_file()])


def _step_of(file: Path) -> int | None:
    named = _FOLDER.fullmatch(file.parent.name)
    return int(named["step"]) if named else None


def _tasks(files: Sequence[Path]) -> dict[Path, str]:
    """File → its task: the part of an episode's id before the rollout, where several episodes share one.

    A task that was drawn twice in a step has two; its hash is the same.
    """
    named = {file: match for file in files if (match := _NAME.fullmatch(file.name))}
    by_hash: dict[str, set[str]] = defaultdict(set)
    for match in named.values():
        by_hash[match["hash"]].add(match["task"])
    sizes: dict[str, int] = defaultdict(int)
    for match in named.values():
        sizes[match["hash"]] += 1
    return {
        file: match["hash"]
        if match["rollout"] is None or len(by_hash[match["hash"]]) == sizes[match["hash"]]
        else f"{match['hash']}:{match['task']}"
        for file, match in named.items()
    }


def _episode(file: Path, book: Book) -> Row | None:
    try:
        size = file.stat().st_size
        held = json.loads(file.read_text(encoding="utf-8-sig")) if size <= _LONGEST else None
    except (ValueError, RecursionError):
        book.reject("episode is not JSON")
        return None
    book.saw(size)
    if not isinstance(held, dict):
        book.reject("episode is no JSON object, or larger than 256 MiB")
        return None
    if too_deep(held):
        book.reject(TOO_DEEP)
        return None
    return held


def _trajectory(episode: Row, trajectory: Any, name: str, task: str, step: int | None) -> list[Row]:
    """Rows of one trajectory: one where its conversation grows from step to step, else one a step."""
    if not isinstance(trajectory, dict):
        raise OddValue("a trajectory is no object")
    found = trajectory.get("steps")
    steps = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    if not steps or not isinstance(found, list) or len(steps) != len(found):
        raise OddValue("trajectory without steps")
    said = episode.get("termination_reason")
    step = step if step is not None else episode.get("training_step")
    row: Row = {
        "step": step,
        "group_id": f"{step}:{task}:{trajectory.get('name')}",
        # What a turn or a judge is asked differs within a group: the task does not.
        "prompt_id": hash_prompt(f"{task.partition(':')[0]}:{trajectory.get('name')}"),
        "reward": number(trajectory.get("reward"), "reward"),
        "correct": flag(episode.get("is_correct"), "is_correct"),
        "finish_reason": _ENDS[said] if isinstance(said, str) and said in _ENDS else finish_reason(said),
        "extra": {
            **{key: episode.get(key) for key in ("episode_id", "epoch", "task_hash", "metrics", "metadata")},
            "trajectory": trajectory.get("name"),
        },
    }
    talks = [_messages(each) for each in steps]
    if all(now[: len(before)] == before for before, now in pairwise(talks)):
        first = next((at for at, each in enumerate(talks[-1]) if each.get("role") == "assistant"), None)
        return [row | _texts(steps[-1], talks[-1], first)]
    made = []
    for turn, (each, talk) in enumerate(zip(steps, talks, strict=True)):
        last = next((at for at in reversed(range(len(talk))) if talk[at].get("role") == "assistant"), None)
        made.append(row | _texts(each, talk, last) | {"trajectory_id": name, "turn": turn})
    return made


def _messages(step: Row) -> list[Row]:
    talk = step.get("chat_completions")
    return [each for each in talk if isinstance(each, dict)] if isinstance(talk, list) else []


def _texts(step: Row, talk: list[Row], first: int | None) -> Row:
    """Prompt and response: the conversation cut before a message; without one what was seen and said."""
    if first is None:
        prompt = text(talk) if talk else text(step.get("observation"))
        response = step.get("model_response")
        return {"prompt": prompt, "response": text(response if response is not None else step.get("action"))}
    return {"prompt": text(talk[:first]) or "", "response": text(talk[first:])}


IMPORTER = Importer(
    name="rllm",
    title="rLLM: log_episodes (episodes/train_step_*/episode_*.json)",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    cannot="no token ids, masks, log-probs, advantages or lengths",
    holds=(*("trajectory_id", "turn", "prompt", "response", "reward", "correct", "finish_reason", "extra"),),
)
