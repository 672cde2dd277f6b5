"""One unit of a foreign log → one Parquet file of the rollout schema, in bounded memory.

Where groups have to be rebuilt the unit is read twice: first for prompts and steps alone, then for its rows.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.importers.grouping import LEFT_OUT, Groups, rebuild
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


def convert(
    importer: Importer,
    unit: Unit,
    source: Source,
    target: Path,
    advance: Callable[[int], None] | None = None,
) -> Made:
    """Write the rows of ``unit`` to ``target``, whole or not at all.

    Parameters
    ----------
    advance : callable, optional
        Told the number of rows after each batch.

    Raises
    ------
    BadLog
        The unit cannot be read at all.
    """
    book = Book()
    groups = _survey(importer, unit, source)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema()])
    bare = 0
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for batch in _batches(importer, unit, source, book, groups):
                writer.write_batch(batch)
                book.rows += batch.num_rows
                bare += batch["group_id"].null_count
                if advance is not None:
                    advance(batch.num_rows)
        sync(temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    if groups is not None:
        for note in groups.notes:
            book.note(note)
    assert book.read == book.rows + book.rejected.total(), (unit.name, book)
    return Made(book.read, book.rows, dict(book.rejected), list(book.notes), bare == 0, book.skipped)


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


def _survey(importer: Importer, unit: Unit, source: Source) -> Groups | None:
    """Groups of the rows of a unit; None where every row brings its own, or the unit is made of tables."""
    how = source.options.grouping or importer.grouping
    if how == "given":
        return None
    prompts: list[int] = []
    steps: list[int] = []
    codes: dict[str, int] = {}
    aside = Book()
    for found in _tables_and_rows(importer.rows(unit, source, aside), aside):
        if isinstance(found, pa.Table):
            return None
        for row in found:
            prompts.append(codes.setdefault(row["prompt_id"], len(codes)))
            steps.append(row.get("step") or 0)
    return rebuild(np.array(prompts, np.int64), np.array(steps, np.int64), how, source.group_size)


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
            if self._groups is not None and self._groups.group is not None and row.get("group_id") is None:
                group = int(self._groups.group[at])
                if group < 0:
                    book.read -= 1
                    book.reject(LEFT_OUT)
                    continue
                row["group_id"] = f"{self._unit}:{group}"
            if row.get("sample_index") is None:
                name = row.get("group_id")
                row["sample_index"] = self._places[name]
                self._places[name] += 1
            yield row
