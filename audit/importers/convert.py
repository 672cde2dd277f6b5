"""One unit of a foreign log → one Parquet file of the rollout schema, in bounded memory.

Where groups have to be rebuilt the unit is read twice: first for prompts and steps alone, then for its rows.
"""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.importers.filtered import Silent
from audit.importers.grouping import LEFT_OUT, Groups, regroup
from audit.importers.interface import Book, Importer, Row, Source, Unit
from audit.importers.rows import batches, checked
from audit.logs.batching import canonical_batch
from audit.logs.files import sync
from audit.schema import BY_NAME, COLUMNS, arrow_schema

GROUP_TOKENS = 1_000_000
"""Rows are written by row groups of about this many values."""


class Made(msgspec.Struct, frozen=True):
    """What became of one unit."""

    read: int
    rows: int
    rejected: dict[str, int]
    notes: list[str]
    grouped: bool
    """Whether every row has a group."""
    skipped: dict[str, str] = {}
    """Files that were left out."""
    shares: dict[str, tuple[int, int]] = {}
    """What is said with numbers → (part, whole)."""


def convert(
    importer: Importer,
    unit: Unit,
    source: Source,
    target: Path,
    tick: Callable[[float], None] | None = None,
) -> Made:
    """Write the rows of ``unit`` to ``target``, whole or not at all.

    Parameters
    ----------
    tick : callable, optional
        Told the bytes that were read, as they are; where the unit is read twice each time counts half.

    Raises
    ------
    BadLog
        The unit cannot be read at all.
    """
    twice = (source.options.grouping or importer.grouping) != "given"
    told = None if tick is None else (lambda size: tick(size / 2 if twice else size))
    book = Book(tick=told)
    groups = _survey(importer, unit, source, Book(tick=told)) if twice else None
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema()])
    bare, silent = 0, Silent()
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for batch in _batches(importer, unit, source, book, groups):
                writer.write_batch(batch)
                book.rows += batch.num_rows
                bare += batch["group_id"].null_count
                silent.add(batch)
        sync(temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    if groups is not None:
        for note in groups.notes:
            book.note(note)
    if dropped := silent.note():
        book.note(dropped)
    assert book.read == book.rows + book.rejected.total(), (unit.name, book)
    return Made(
        book.read, book.rows, dict(book.rejected), list(book.notes), bare == 0, book.skipped, book.shares
    )


def _batches(
    importer: Importer, unit: Unit, source: Source, book: Book, groups: Groups | None
) -> Iterator[pa.RecordBatch]:
    """Yield batches of every column; rows of dicts are gathered, tables go through as they are."""
    number = _Numbering(unit.name, groups)
    for found in _tables_and_rows(importer.rows(unit, source, book), book):
        if isinstance(found, pa.Table):
            for batch in found.to_batches():
                yield _whole(canonical_batch(batch, _known(batch), str(source.path)))
        else:
            yield from batches(number.place(found, book))


def _tables_and_rows(found: Iterable[Row | pa.Table], book: Book) -> Iterator[pa.Table | Iterator[Row]]:
    """Split a stream into tables and runs of rows, the latter checked."""
    stream = iter(found)
    held: list[Row | pa.Table] = []

    def run() -> Iterator[Row]:
        while held and not isinstance(held[0], pa.Table):
            yield held.pop()
            if (following := next(stream, None)) is not None:
                held.append(following)

    while True:
        if not held:
            following = next(stream, None)
            if following is None:
                return
            held.append(following)
        if isinstance(held[0], pa.Table):
            table = held.pop()
            assert isinstance(table, pa.Table)
            book.read += table.num_rows
            yield table
        else:
            yield checked(run(), book)


def _known(batch: pa.RecordBatch) -> list[str]:
    return [name for name in batch.schema.names if name in BY_NAME]


def _whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [
        batch[c.name] if c.name in batch.schema.names else pa.nulls(batch.num_rows, c.arrow_type)
        for c in COLUMNS
    ]
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema()])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _survey(importer: Importer, unit: Unit, source: Source, aside: Book) -> Groups | None:
    """Groups of the rows of a unit; None where the rows' own are right, or the unit is made of tables."""
    prompts, steps, own = array("q"), array("q"), array("q")
    codes: dict[str, int] = {}
    names: dict[str, int] = {}
    for found in _tables_and_rows(importer.rows(unit, source, aside), aside):
        if isinstance(found, pa.Table):
            return None
        for row in found:
            prompts.append(codes.setdefault(row["prompt_id"], len(codes)))
            steps.append(row.get("step") or 0)
            name = row.get("group_id")
            own.append(-1 if name is None else names.setdefault(name, len(names)))
    how = source.options.grouping or importer.grouping
    return regroup(_numbers(prompts), _numbers(steps), _numbers(own), how, source.group_size)


def _numbers(held: array[int]) -> np.ndarray:
    return np.frombuffer(held, np.int64) if len(held) else np.empty(0, np.int64)


class _Numbering:
    """Gives rows their group and their place in it."""

    def __init__(self, unit: str, groups: Groups | None) -> None:
        self._unit = unit
        self._groups = groups
        self._row = 0
        self._places: dict[str | None, int] = defaultdict(int)

    def place(self, rows: Iterable[Row], book: Book) -> Iterator[Row]:
        for row in rows:
            at = self._row
            self._row += 1
            if self._groups is not None and not self._name(row, at, self._groups):
                book.read -= 1
                book.reject(LEFT_OUT)
                continue
            if row.get("sample_index") is None:
                name = row.get("group_id")
                row["sample_index"] = self._places[name]
                self._places[name] += 1
            yield row

    def _name(self, row: Row, at: int, groups: Groups) -> bool:
        """Name the group of a row; False where it has to be left out."""
        if row.get("group_id") is not None:
            if groups.own == "by step":
                row["group_id"] = f"{row.get('step') or 0}:{row['group_id']}"
            if groups.own != "dropped":
                return True
        if groups.group is not None:
            group = int(groups.group[at])
            row["group_id"] = f"{self._unit}:{group}"
            return group >= 0
        return True
