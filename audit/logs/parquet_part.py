"""One Parquet file of a run, read row group by row group."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from audit.errors import BadLog
from audit.logs.batching import MOST_ROWS, canonical_batch, split_by_tokens
from audit.logs.files import RunFile
from audit.logs.footers import Footer, kind_of
from audit.logs.places import is_remote, open_binary, readable, storage_error
from audit.schema import TOKEN_LISTS

_MOST_BYTES = 128 * 2**20
"""Uncompressed bytes of one batch, about: bounds batches of long texts."""
_ASK_TOKENS = 1_000_000


class ParquetPart:
    """One Parquet file of a run."""

    def __init__(self, file: RunFile, footer: Footer | None = None) -> None:
        """Read the footer, unless it is known from before.

        Raises
        ------
        BadLog
            A column has a type that cannot mean what the schema says, or appears twice.
        pyarrow.ArrowException, OSError
            The footer cannot be read.
        """
        self.file = file
        if footer is None:
            path = file.path
            with open_parquet(path) as parquet:
                kind = kind_of(parquet.schema_arrow, path)
                footer = Footer(kind, int(parquet.metadata.num_rows))
        self.footer = footer

    @property
    def signature(self) -> str:
        """Names and types of all columns; equal for files that can be read in one scan."""
        return self.footer.kind.signature

    @property
    def name(self) -> str:
        """Path relative to the run."""
        return self.file.name

    @property
    def num_rows(self) -> int:
        """Number of responses."""
        return self.footer.rows

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """Types, as found, of the schema columns that the file has."""
        return self.footer.kind.types

    @property
    def unknown(self) -> tuple[str, ...]:
        """Columns of the file that the schema does not know."""
        return self.footer.kind.unknown

    def holding(self, columns: frozenset[str]) -> frozenset[str]:
        """Return those of ``columns`` that hold a value: from the footer where it tells, else by reading."""
        wanted = [name for name in self.types if name in columns]
        asked = [name for name in wanted if name not in self.footer.answers]
        if asked and self.num_rows:
            self.footer.answers = self.footer.answers | self._ask(asked)
        return frozenset(name for name in wanted if self.footer.answers.get(name, False))

    def _ask(self, wanted: list[str]) -> dict[str, bool]:
        with self._open() as parquet:
            chunks = _chunks(parquet.metadata)
            held = {name for name in wanted if any(_has_value(chunk) for chunk in chunks.get(name, ()))}
            # A list of empty lists has no leaf value and still says something: only the rows themselves tell.
            open_questions = [
                n for n in wanted if n not in held and not _surely_null(chunks.get(n), self.types[n])
            ]
            try:
                groups: Sequence[int] | None = None if open_questions else []
                for batch in _read(parquet, open_questions, _ASK_TOKENS, groups):
                    held.update(n for n in open_questions if batch[n].null_count < batch.num_rows)
            except Exception as error:
                raise self._unreadable(error, "cannot be read, the file is damaged") from None
        return {name: name in held for name in wanted}

    def value_range(self, column: str) -> tuple[float, float] | None:
        """Return (smallest, largest) leaf value by the footer, or None where it does not tell."""
        with self._open() as parquet:
            chunks = [c for c in _chunks(parquet.metadata).get(column, ()) if c.num_values]
        limits = []
        for chunk in chunks:
            statistics = chunk.statistics
            if statistics is None:
                return None
            if statistics.has_min_max:
                limits.append((float(statistics.min), float(statistics.max)))
            elif not statistics.has_null_count or statistics.null_count < chunk.num_values:
                return None
        return (min(low for low, _ in limits), max(high for _, high in limits)) if limits else (0.0, 0.0)

    def batches(
        self, columns: Sequence[str], *, max_tokens: int, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield canonical batches in row order.

        Parameters
        ----------
        groups : sequence of int, optional
            Only these row groups, decoded in the calling thread; default: all of them, with Arrow's threads.

        Raises
        ------
        BadLog
            The file is damaged, a value does not fit its column, or the file changed since it was opened.
        """
        here = [name for name in columns if name in self.types]
        where = str(self.file.path)
        self.refuse_if_changed()
        with self._open() as parquet:
            found = _read(parquet, here, max_tokens, groups)
            while True:
                try:
                    batch = next(found, None)
                except Exception as error:
                    raise self._unreadable(error, "cannot be read, the file is damaged") from None
                if batch is None:
                    break
                yield from split_by_tokens(canonical_batch(batch, columns, where), max_tokens)
        self.refuse_if_changed()

    def row_groups(self) -> list[int]:
        """Tokens of each row group, by its longest token list; its rows where it has none."""
        with self._open() as parquet:
            metadata = parquet.metadata
            found = []
            for index in range(metadata.num_row_groups):
                group = metadata.row_group(index)
                chunks = (group.column(column) for column in range(group.num_columns))
                lists = [int(chunk.num_values) for chunk in chunks if _top_level(chunk) in TOKEN_LISTS]
                found.append(max(lists, default=int(group.num_rows)))
        return found

    def _open(self) -> pq.ParquetFile:
        try:
            parquet = open_parquet(self.file.path)
        except Exception as error:
            raise self._unreadable(error, "cannot be opened any more") from None
        if parquet.metadata.num_rows != self.num_rows:
            parquet.close()
            raise self._changed()
        return parquet

    def _unreadable(self, error: Exception, what: str) -> Exception:
        """Return the clear error for one of Parquet or of a storage client; others come back as they are."""
        if isinstance(error, pa.ArrowException) or not is_remote(self.file.path):
            if not isinstance(error, (pa.ArrowException, OSError)):
                return error
            self.refuse_if_changed()
            return BadLog(f"{self.file.path}: {what}: {str(error).splitlines()[0]}")
        self.refuse_if_changed()
        return storage_error(self.file.path, error)

    def refuse_if_changed(self) -> None:
        """Raise :class:`~audit.errors.BadLog` if the file is not the one that was opened."""
        with readable(self.file.path):
            same = self.file.unchanged()
        if not same:
            raise self._changed()

    def _changed(self) -> BadLog:
        return BadLog(f"{self.file.path}: the file was changed after the run was opened; open the run again.")


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file: of this machine, or of object storage by requests for ranges of it."""
    if is_remote(path):
        source = open_binary(path)
        try:
            # The column chunks of a row group are asked for together, neighbours in one request.
            return pq.ParquetFile(source, pre_buffer=True)
        except BaseException:
            source.close()
            raise
    # As it stands, Arrow would take the name of a folder 's3:' for an address.
    return pq.ParquetFile(os.path.abspath(path))


def _read(
    parquet: Any, here: list[str], max_tokens: int, groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    """Read the columns ``here`` row group by row group, about ``max_tokens`` tokens at a time."""
    metadata = parquet.metadata
    for group in range(metadata.num_row_groups) if groups is None else groups:
        row_group = metadata.row_group(group)
        if here:
            size = _rows_at_a_time(row_group, here, max_tokens)
            yield from parquet.iter_batches(
                batch_size=size, row_groups=[group], columns=here, use_threads=groups is None
            )
            continue
        for start in range(0, row_group.num_rows, MOST_ROWS):
            rows = min(MOST_ROWS, row_group.num_rows - start)
            yield pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])


def _rows_at_a_time(row_group: Any, here: list[str], max_tokens: int) -> int:
    """Return the rows of an average row group of this make that hold ``max_tokens`` tokens."""
    rows, tokens, size = int(row_group.num_rows), 1, 1
    for index in range(row_group.num_columns):
        chunk = row_group.column(index)
        name = _top_level(chunk)
        if name in here:
            size += int(chunk.total_uncompressed_size)
            tokens = max(tokens, int(chunk.num_values) if name in TOKEN_LISTS else 1)
    return max(1, min(MOST_ROWS, math.ceil(max_tokens * rows / tokens), _MOST_BYTES * rows // size))


def _chunks(metadata: Any) -> dict[str, list[Any]]:
    """Return the column chunks of every row group by the name of their top-level column."""
    chunks: dict[str, list[Any]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for index in range(row_group.num_columns):
            chunk = row_group.column(index)
            chunks.setdefault(_top_level(chunk), []).append(chunk)
    return chunks


def _top_level(chunk: Any) -> str:
    return str(chunk.path_in_schema.split(".", 1)[0])


def _has_value(chunk: Any) -> bool:
    found = chunk.statistics
    return bool(found is not None and found.has_null_count and found.null_count < chunk.num_values)


def _surely_null(chunks: list[Any] | None, kind: pa.DataType) -> bool:
    """Tell whether the footer says that a column without nesting holds nothing."""
    if pt.is_nested(kind) or not chunks:
        return False
    found = [(chunk.statistics, chunk.num_values) for chunk in chunks]
    return all(s is not None and s.has_null_count and s.null_count == values for s, values in found)
