"""prime-rl 0.6: ``rollouts/step_N/train_rollouts.jsonl`` and ``eval_rollouts_{env}.jsonl``.

Read: src/prime_rl/orchestrator/{orchestrator,types}.py at v0.6.0 [read only: no released package]. A line is
a rollout output of verifiers without its trajectory, so without tokens, with the orchestrator's ``group_id``,
``policy_version``, ``advantage`` and ``is_filtered``. Steps start at 0; step N trains policy N.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_record, records
from audit.importers.near import manifest_near
from audit.importers.prime_rl import OPTIONS, fits, root_of
from audit.importers.store import in_numeric_order
from audit.importers.verifiers_results import row_of
from audit.logs.manifest import Manifest

TRAIN = "train_rollouts.jsonl"
_STEP = re.compile(r"step_(\d+)")
_PLACES = ("rollouts/step_*/", "step_*/", "")
_OWN = {"advantage", "group_id", "policy_version"}
FILTERED = "filtered after the group was scored, so never trained on (is_filtered)"


def detect(path: Path) -> Detection | None:
    """Take a run, its ``rollouts``, a step or a file of either name."""
    for file in _files(path)[:3]:
        record = first_record(file)
        if record is not None:
            if not {"policy_version", "group_id", "completion"} <= record.keys():
                return None
            return Detection(0.96, f"keys policy_version, group_id, completion in {file.name}")
    return None


def units(path: Path) -> list[Unit]:
    """Every step is a file of its own."""
    return [Unit(f"{file.parent.name}/{file.name}", (file,)) for file in _files(path)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step."""
    del source
    file = unit.files[0]
    named = _STEP.fullmatch(file.absolute().parent.name)
    trained = file.name == TRAIN
    if not trained:
        book.note("evaluation samples: no update was made from these rows")
    for record in records(file, book):
        if record.get("is_filtered") is True:
            book.reject(FILTERED)
            continue
        row = row_of(record)
        row["extra"] = {name: value for name, value in row["extra"].items() if name not in _OWN}
        step = int(named[1]) if named else record.get("eval_step", 0)
        yield row | {
            "step": step,
            "group_id": record.get("group_id"),
            "advantage": record.get("advantage"),
            "sampler_version": record.get("policy_version"),
            "policy_version": step if trained and named else None,
        }


def manifest(path: Path) -> Manifest:
    """Read the run.json or ``configs/`` of the run."""
    root = root_of(path)
    return manifest_near(root, "prime-rl", fits, options=OPTIONS)


def _files(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path] if path.name == TRAIN or path.match("eval_rollouts_*.jsonl") else []
        for name in (TRAIN, "eval_rollouts_*.jsonl"):
            for place in _PLACES:
                found = [file for file in path.glob(f"{place}{name}") if file.is_file()]
                if found:
                    return in_numeric_order(found)
    except (OSError, ValueError):
        pass
    return []


IMPORTER = Importer(
    name="prime-rl-rollouts",
    title="prime-rl 0.6: rollouts/step_*/train_rollouts.jsonl",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    cannot="no token ids, masks or log-probs",
    holds=(
        *("prompt", "response", "prompt_length", "length", "reward", "reward_components", "advantage"),
        *("finish_reason", "policy_version", "sampler_version", "extra"),
    ),
)
