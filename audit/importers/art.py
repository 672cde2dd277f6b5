"""OpenPipe ART: ``.art/{project}/models/{model}/trajectories/{split}/{step:04d}.parquet``, before ``.jsonl``.

Read: art/utils/trajectory_logging.py, art/utils/trajectory_migration.py and art/model.py of the released
0.5.18. A row is a trajectory with its messages; those that the policy made are ``trainable`` (a ``Choice`` in
JSONL, which keeps its finish reason). Log-probs are removed before both. ``art migrate`` writes the Parquet
beside a JSONL file that may stay: of one step only the Parquet is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.importers.finish import finish_reason
from audit.importers.interface import Book, Detection, Importer, Row, Source, Unit
from audit.importers.jsonl import first_with, records
from audit.importers.near import having, manifest_near
from audit.importers.store import in_numeric_order
from audit.importers.values import OddValue
from audit.importers.verifiers_results import parts_of
from audit.logs.manifest import Manifest
from audit.logs.parquet_part import open_parquet

_NAME = re.compile(r"(\d+)\.(parquet|jsonl)")
_COLUMNS = {"reward", "messages", "metrics", "metadata"}
_ROWS = 256
_OWN = {"additional_histories", "group_index", "messages", "messages_and_choices", "metrics", "reward"}
_JSON = ("group_metadata", "group_metrics", "metrics", "metadata", "tools")
SPLITS = ("train", "val")
HISTORIES = "additional histories of trajectories were left out: only the main one is a row"


def detect(path: Path) -> Detection | None:
    """Take the folder of a model, its ``trajectories``, a split or a file."""
    for file in _files(path)[:3]:
        if file.suffix == ".jsonl":
            if first_with(file, _is_group):
                return Detection(0.95, f"keys trajectories, messages_and_choices in {file.name}")
            return None
        names = _schema(file)
        if names is not None:
            return Detection(0.96, f"messages with a trainable flag in {file.name}") if names else None
    return None


def _is_group(record: Mapping[str, Any]) -> bool:
    held = record.get("trajectories")
    return (
        isinstance(held, list)
        and bool(held)
        and isinstance(held[0], dict)
        and "messages_and_choices" in held[0]
    )


def _schema(file: Path) -> bool | None:
    """Whether a Parquet file has ART's columns; None where it cannot be read."""
    try:
        with open_parquet(file) as parquet:
            schema = parquet.schema_arrow
    except (pa.ArrowException, OSError):
        return None
    if not set(schema.names) >= _COLUMNS:
        return False
    kind = schema.field("messages").type
    return (
        pa.types.is_list(kind)
        and pa.types.is_struct(kind.value_type)
        and any(field.name == "trainable" for field in kind.value_type)
    )


def units(path: Path) -> list[Unit]:
    """Every step is a file."""
    return [Unit(f"{file.parent.name}/{file.name}", (file,)) for file in _files(path)]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[Row]:
    """Read one step."""
    file = unit.files[0]
    named = _NAME.fullmatch(file.name)
    step = int(named[1]) if named else 0
    split = file.absolute().parent.name
    if split != "train":
        book.note(f"the split {split}: no update was made from these rows")
    elif source.path.name != split and not source.path.is_file() and (file.parent.parent / "val").is_dir():
        book.note("val/ beside train/ holds validation samples, left out here: open it by its name")
    for group, trajectory in _trajectories(file, book):
        if trajectory.get("additional_histories"):
            book.note(HISTORIES)
        try:
            row = _row(trajectory)
        except OddValue as odd:
            book.reject(str(odd))
            continue
        yield row | {"step": step, "group_id": None if group is None else f"{split}/{step}:{group}"}


def _trajectories(file: Path, book: Book) -> Iterator[tuple[Any, Row]]:
    if file.suffix == ".parquet":
        with open_parquet(file) as parquet:
            for batch in parquet.iter_batches(_ROWS):
                book.saw(batch.nbytes)
                for record in batch.to_pylist():
                    yield (
                        record.get("group_index", 0),
                        record | {name: _opened(record.get(name)) for name in _JSON},
                    )
        return
    for group, record in enumerate(records(file, book)):
        held = record.get("trajectories")
        if not isinstance(held, list) or not held:
            book.reject("group without trajectories")
            continue
        for trajectory in held:
            if isinstance(trajectory, dict):
                yield group, trajectory
            else:
                book.reject("trajectory is not a JSON object")


def _opened(value: Any) -> Any:
    """Take JSON out of its text; text that is none stays."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _row(trajectory: Row) -> Row:
    held = trajectory.get("messages", trajectory.get("messages_and_choices"))
    if not isinstance(held, list) or not all(isinstance(each, dict) for each in held):
        raise OddValue("trajectory without messages")
    told = [_message(each) for each in held]
    made = [bool(each.get("trainable")) or "finish_reason" in each for each in held]
    if True not in made:
        made = [each.get("role") == "assistant" for each in told]
    first = made.index(True) if True in made else len(told)
    last: Row = next((each for each in reversed(held) if "finish_reason" in each), {})
    metrics = trajectory.get("metrics")
    extra = {
        name: value for name, value in trajectory.items() if name not in _OWN and value not in (None, [], {})
    }
    return {
        "prompt": told[:first] or None,
        "response": told[first:] or None,
        "reward": trajectory.get("reward"),
        "reward_components": (parts_of(metrics) if isinstance(metrics, dict) else None) or None,
        "finish_reason": finish_reason(last.get("finish_reason")),
        "sampler_version": trajectory.get("initial_policy_version"),
        "extra": extra,
    }


def _message(held: Mapping[str, Any]) -> dict[str, Any]:
    """A message, of a choice the one inside; tool calls in JSON are taken out of it."""
    inner = held.get("message") if "finish_reason" in held else held
    if not isinstance(inner, dict) or not isinstance(inner.get("role"), str):
        raise OddValue("a message of the trajectory has no role")
    return {**inner, "tool_calls": _opened(inner.get("tool_calls"))}


def manifest(path: Path) -> Manifest:
    """Read the run.json; ART's settings are arguments in code and are not written."""
    return manifest_near(path, "art", having("art_version"))


def _files(path: Path) -> list[Path]:
    """The steps of training, else of the split that is there."""
    try:
        if path.is_file():
            return [path] if _NAME.fullmatch(path.name) else []
        for folder in (*(path / "trajectories" / s for s in SPLITS), *(path / s for s in SPLITS), path):
            found = {}
            for file in sorted(folder.iterdir()) if folder.is_dir() else []:
                named = _NAME.fullmatch(file.name)
                if named and file.is_file():
                    # Sorted: the Parquet of a step comes after its JSONL, and replaces it.
                    found[int(named[1])] = file
            if found:
                return in_numeric_order(list(found.values()))
    except (OSError, ValueError):
        pass
    return []


IMPORTER = Importer(
    name="art",
    title="OpenPipe ART: trajectories/train/*.parquet or *.jsonl",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    grouping="prompt",
    cannot="no token ids, masks, log-probs, advantages or lengths; finish reasons only in JSONL",
    holds=("prompt", "response", "reward", "reward_components", "finish_reason", "sampler_version", "extra"),
)
