"""One Parquet file of a run, read row group by row group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from audit.errors import BadLog
from audit.logs.batching import MOST_ROWS, canonical_batch, split_by_tokens
from audit.logs.canonical import check_type
from audit.logs.files import RunFile
from audit.schema import BY_NAME, TOKEN_LISTS

_MOST_BYTES = 128 * 2**20
"""Uncompressed bytes of one batch, about: bounds batches of long texts."""


class ParquetPart:
    """One Parquet file of a run."""

    def __init__(self, file: RunFile) -> None:
        """Read the footer.

        Raises
        ------
        BadLog
            A column has a type that cannot mean what the schema says, or appears twice.
        pyarrow.ArrowException, OSError
            The footer cannot be read.
        """
        self.file = file
        with pq.ParquetFile(file.path) as parquet:
            schema, self._num_rows = parquet.schema_arrow, int(parquet.metadata.num_rows)
        self.signature: str = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
        """Names and types of all columns; equal for files that can be read in one scan."""
        names = schema.names
        self._unknown = tuple(name for name in names if name not in BY_NAME)
        self._types = {name: schema.field(names.index(name)).type for name in names if name in BY_NAME}
        for name, found in self._types.items():
            if names.count(name) > 1:
                msg = f"{file.path}: column '{name}' appears {names.count(name)} times."
                raise BadLog(msg)
            check_type(found, BY_NAME[name], str(file.path))

    @property
    def name(self) -> str:
        """Path relative to the run."""
        return self.file.name

    @property
    def num_rows(self) -> int:
        """Number of responses."""
        return self._num_rows

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """Types, as found, of the schema columns that the file has."""
        return self._types

    @property
    def unknown(self) -> tuple[str, ...]:
        """Columns of the file that the schema does not know."""
        return self._unknown

    def holding(self, columns: frozenset[str]) -> frozenset[str]:
        """Return those of ``columns`` that hold a value: from the footer where it tells, else by reading."""
        wanted = [name for name in self._types if name in columns]
        if not wanted or not self._num_rows:
            return frozenset()
        with self._open() as parquet:
            chunks = _chunks(parquet.metadata)
            held = {name for name in wanted if any(_has_value(chunk) for chunk in chunks.get(name, ()))}
            # A list of empty lists has no leaf value and still says something: only the rows themselves tell.
            open_questions = [
                n for n in wanted if n not in held and not _surely_null(chunks.get(n), self._types[n])
            ]
            if open_questions:
                for batch in parquet.iter_batches(batch_size=MOST_ROWS, columns=open_questions):
                    held.update(n for n in open_questions if batch[n].null_count < batch.num_rows)
        return frozenset(held)

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

    def batches(self, columns: Sequence[str], *, max_tokens: int) -> Iterator[pa.RecordBatch]:
        """Yield canonical batches in row order.

        Raises
        ------
        BadLog
            The file is damaged, a value does not fit its column, or the file changed since it was opened.
        """
        here = [name for name in columns if name in self._types]
        where = str(self.file.path)
        self._refuse_if_changed()
        with self._open() as parquet:
            found = _read(parquet, here, max_tokens)
            while True:
                try:
                    batch = next(found, None)
                except (pa.ArrowException, OSError) as error:
                    self._refuse_if_changed()
                    msg = f"{where}: cannot be read, the file is damaged: {str(error).splitlines()[0]}"
                    raise BadLog(msg) from None
                if batch is None:
                    break
                yield from split_by_tokens(canonical_batch(batch, columns, where), max_tokens)
        self._refuse_if_changed()

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.file.path)
        except (pa.ArrowException, OSError) as error:
            msg = f"{self.file.path}: cannot be opened any more: {str(error).splitlines()[0]}"
            raise BadLog(msg) from None

    def _refuse_if_changed(self) -> None:
        if not self.file.unchanged():
            msg = f"{self.file.path}: the file was changed after the run was opened; open the run again."
            raise BadLog(msg)


def _read(parquet: Any, here: list[str], max_tokens: int) -> Iterator[pa.RecordBatch]:
    """Read the columns ``here`` row group by row group, about ``max_tokens`` tokens at a time."""
    metadata = parquet.metadata
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        if here:
            size = _rows_at_a_time(row_group, here, max_tokens)
            yield from parquet.iter_batches(batch_size=size, row_groups=[group], columns=here)
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
