"""TRL's own ``completions/completions_*.parquet`` (GRPOTrainer with ``log_completions=True``).

Read in TRL 0.28 to 1.16, trl/trainer/grpo_trainer.py ``log``: columns ``step``, ``prompt``, ``completion``,
one column per reward function, columns of ``log_extra``, ``advantage``. Each file holds the newest generation
batch; a batch that lives over several logs is written again, an evaluation at the same step overwrites the
file, and there is no group id, token, mask, log-prob or finish reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.errors import BadLog
from audit.importers.blocks import contiguous_blocks
from audit.importers.interface import Book, Detection, Importer, Source, Unit
from audit.importers.near import having, manifest_near
from audit.importers.trl_rewards import TotalReward, total_reward
from audit.importers.trl_tables import NAME as TABLE_NAME
from audit.importers.trl_tables import read_table, table_files
from audit.logs.files import SkippedFile, check_file, numeric_order
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt
from audit.logs.parquet_part import open_parquet
from audit.logs.places import name_of, real_path

_NAME = re.compile(r"completions_\d+\.parquet")
_OWN = ("step", "prompt", "completion", "advantage")
_OPTIONS = {
    "group_size": "num_generations",
    "sampling.temperature": "temperature",
    "sampling.top_p": "top_p",
    "sampling.max_tokens": "max_completion_length",
    "seed": "seed",
}


def detect(path: Path) -> Detection | None:
    """Take a ``completions`` folder, the output directory that holds one, or one of its files."""
    files = _files(path)
    return Detection(0.95, f"{files[0].name} of GRPOTrainer") if files else None


def units(path: Path) -> list[Unit]:
    """All files are one unit: batches repeat from file to file, and rewards show over all of them."""
    files = _files(path)
    return [Unit(files[0].parent.name, tuple(files))]


def rows(unit: Unit, source: Source, book: Book) -> Iterator[pa.Table]:
    """Read all files.

    Raises
    ------
    BadLog
        None of them can be read.
    """
    tables: list[pa.Table] = []
    seen: dict[str, str] = {}
    for file in unit.files:
        first = seen.setdefault(real_path(file), file.name)
        if first != file.name:
            book.skip(file, f"same file as {first}")
            continue
        table = _read(file, book)
        if table is None:
            continue
        if tables and _same_batch(tables[-1], table):
            book.reject("repeated batch", table.num_rows)
            book.skip(file, "repeats the batch of the file before it")
            continue
        tables.append(table)
    if not tables:
        reasons = "; ".join(f"{Path(file).name}: {reason}" for file, reason in list(book.skipped.items())[:3])
        msg = f"no TRL completions file can be read ({reasons})."
        raise BadLog(msg)
    table, notes = _rows(tables, source)
    for note in notes:
        book.note(note)
    yield table


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if _NAME.fullmatch(path.name) or TABLE_NAME.fullmatch(path.name) else []
    for folder in (path, path / "completions"):
        found = [f for f in folder.iterdir() if _NAME.fullmatch(f.name)] if folder.is_dir() else []
        if found:
            return sorted(found, key=lambda f: numeric_order(f.name))
    return table_files(path) if path.is_dir() else []


def _read(file: Path, book: Book) -> pa.Table | None:
    if TABLE_NAME.fullmatch(file.name):
        return _usable(read_table, file, book)
    checked = check_file(file, file.name)
    if isinstance(checked, SkippedFile):
        book.skip(file, checked.reason)
        return None
    return _usable(_whole, file, book)


def _whole(file: Path) -> pa.Table:
    with open_parquet(file) as parquet:
        return parquet.read()


def _usable(read: Callable[[Path], pa.Table], file: Path, book: Book) -> pa.Table | None:
    try:
        table = read(file)
    except (pa.ArrowException, OSError, BadLog) as error:
        book.skip(file, str(error).splitlines()[0])
        return None
    reason = _why_not(table)
    if reason:
        book.skip(file, reason)
        return None
    return table


def _why_not(table: pa.Table) -> str:
    """Why a file is not GRPO completions; empty where it is."""
    names = table.column_names
    missing = [name for name in _OWN if name not in names]
    if missing:
        return f"has no column {', '.join(missing)}: not a GRPO completions file"
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return f"has column {', '.join(twice)} more than once"
    for name in ("step", "advantage"):
        kind = table.schema.field(name).type
        if not _is_number(kind) and not pa.types.is_null(kind):
            return f"column {name} holds {kind}, not numbers"
    steps = _numbers(table, "step")
    if not np.array_equal(steps, np.round(steps)) or np.any(np.abs(steps) > 2**53):
        return "column step holds values that are no step numbers"
    return ""


def _same_batch(before: pa.Table, now: pa.Table) -> bool:
    """Whether two files hold one batch: everything but the step is equal."""
    rest = [name for name in now.column_names if name != "step"]
    return before.column_names == now.column_names and bool(before.select(rest).equals(now.select(rest)))


def manifest(path: Path) -> Manifest:
    """Read the run.json or the training arguments in the output directory, as far as they are there."""
    folder = _files(path)[0].parent
    root = folder.parent if folder.name == "completions" else folder
    own = having("num_generations")

    def names_it(config: dict[str, Any]) -> bool:
        place = config.get("output_dir")
        return own(config) and isinstance(place, str) and Path(place).name == root.name

    def near(fits: Callable[[dict[str, Any]], bool], above: int) -> Manifest:
        return manifest_near(
            folder,
            "trl",
            fits,
            options=_OPTIONS,
            trainer="GRPOTrainer",
            also=("unsloth", "liger"),
            length_unit="characters",
            above=above,
            run_id=name_of(root),
        )

    # Above the output directory a config may be of another run: only one that names the directory counts.
    # The tables of W&B lie in files/media/table, beside the run's own files/config.yaml.
    inside = 2 if (folder.parent.name, folder.name) == ("media", "table") else int(folder != root)
    found = near(own, inside)
    return found if found.config is not None or found.declared else near(names_it, inside + 1)


def _rows(tables: list[pa.Table], source: Source) -> tuple[pa.Table, list[str]]:
    prompt = [text for table in tables for text in map(as_text, table["prompt"].to_pylist())]
    response = [text for table in tables for text in map(as_text, table["completion"].to_pylist())]
    step = np.concatenate([_numbers(table, "step") for table in tables])
    advantage = np.concatenate([_numbers(table, "advantage") for table in tables])
    batch = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
    _, codes = np.unique(np.asarray(prompt, dtype=object).astype(str), return_inverse=True)
    config = source.manifest.config or {}
    declared = source.group_size or config.get("num_generations")
    usable = isinstance(declared, int) and not isinstance(declared, bool) and declared >= 2
    blocks = contiguous_blocks(codes, batch, declared if usable else None)
    parts = _reward_columns(tables)
    weights = config.get("reward_weights")
    reward = total_reward(parts, advantage, blocks.group, weights)
    notes = [blocks.reason, reward.note]
    if declared is not None and not usable:
        notes.append(f"the declared group size {declared!r} is no number of 2 or more: not used")
    others = {field for table in tables for field in table.schema if field.name not in (*_OWN, *parts)}
    unread = sorted(f"{field.name} ({field.type})" for field in others if not field.name.startswith("__"))
    if unread:
        notes.append(f"columns that hold no numbers and cannot be rewards: {', '.join(unread)}")
    sizes = np.bincount(batch)
    if len(np.unique(sizes)) > 1:
        notes.append(f"files hold {sizes.min()} to {sizes.max()} rows: an evaluation may have replaced some")
    gaps = np.diff(np.unique(step))
    if len(gaps) and gaps.max() > 1:
        notes.append(
            f"files are up to {gaps.max():g} steps apart, and TRL keeps only the newest generation batch at "
            "each log: batches in between may be missing"
        )
    return (
        pa.table(
            {
                "step": pa.array(step.astype(np.int64)),
                "generation_batch": pa.array(batch.astype(np.int64)),
                "prompt_id": pa.array([hash_prompt(text) for text in prompt]),
                **_group_columns(blocks.group, batch),
                "prompt": pa.array(prompt),
                "response": pa.array(response),
                **_reward_values(reward),
                "advantage": pa.array(advantage, from_pandas=True),
            }
        ),
        notes,
    )


def _group_columns(group: np.ndarray | None, batch: np.ndarray) -> dict[str, pa.Array]:
    rows = np.arange(len(batch))
    if group is None:
        place = rows - np.searchsorted(batch, batch)
        return {
            "group_id": pa.nulls(len(rows), pa.string()),
            "sample_index": pa.array(place.astype(np.int32)),
        }
    names = [f"{b}-{g}" for b, g in zip(batch.tolist(), group.tolist(), strict=True)]
    place = rows - np.searchsorted(group, group)
    return {"group_id": pa.array(names), "sample_index": pa.array(place.astype(np.int32))}


def _reward_values(reward: TotalReward) -> dict[str, pa.Array]:
    columns = list(reward.parts.items())
    components = [
        [(name, float(values[row])) for name, values in columns if not np.isnan(values[row])]
        for row in range(len(reward.total))
    ]
    return {
        "reward": pa.array(reward.total, from_pandas=True),
        "reward_components": pa.array(components, pa.map_(pa.string(), pa.float64())),
    }


def _reward_columns(tables: list[pa.Table]) -> dict[str, np.ndarray]:
    """Numeric columns beyond TRL's own, in file order; NaN where a file or a row has no value."""
    names = dict.fromkeys(
        field.name
        for table in tables
        for field in table.schema
        if field.name not in _OWN and not field.name.startswith("__") and _is_number(field.type)
    )
    return {name: np.concatenate([_numbers(table, name) for table in tables]) for name in names}


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    column = table[name]
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    values = pc.cast(column, pa.float64(), safe=False).combine_chunks().to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def as_text(value: Any) -> str:
    """Text of a prompt or completion: as it is, or the messages of a conversation one after the other."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(
        isinstance(m, dict) and isinstance(m.get("content"), str) for m in value
    ):
        return "\n".join(f"{message.get('role')}: {message['content']}" for message in value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


IMPORTER = Importer(
    name="trl",
    title="TRL and Unsloth: completions/completions_*.parquet of GRPOTrainer",
    detect=detect,
    units=units,
    rows=rows,
    manifest=manifest,
    holds=("prompt", "response", "reward", "reward_components", "advantage", "generation_batch"),
    cannot="no token ids, masks, log-probs or finish reasons",
)
