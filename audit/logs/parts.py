"""Where the rows of a run come from: a Parquet file, or an Arrow table that an importer built.

Both answer the same three questions (how many rows, which columns hold something, the rows as canonical
batches), so that everything above knows one kind of run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.errors import BadLog
from audit.logs.canonical import check_type, empty_column, to_canonical
from audit.logs.files import RunFile
from audit.schema import BY_NAME, COLUMNS, TOKEN_LISTS

_MOST_ROWS = 65_536
"""Rows of one batch where no token column bounds it."""


class Part(Protocol):
    """A run of rows that are read together."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def num_rows(self) -> int:
        """Number of responses."""
        ...

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """Types, as found, of the schema columns that the part has."""
        ...

    @property
    def unknown(self) -> tuple[str, ...]:
        """Columns that the schema does not know: never read."""
        ...

    def holding(self, columns: frozenset[str]) -> frozenset[str]:
        """Return those of ``columns`` that hold at least one value."""
        ...

    def batches(self, columns: Sequence[str], *, max_tokens: int) -> Iterator[pa.RecordBatch]:
        """Yield canonical batches in row order; see :meth:`audit.logs.Run.batches`."""
        ...


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
            chunks = self._chunks(parquet.metadata)
            held = {name for name in wanted if any(_has_value(chunk) for chunk in chunks.get(name, ()))}
            # A list of empty lists has no leaf value and still says something: only the rows themselves tell.
            for name in set(wanted) - held:
                batches = parquet.iter_batches(batch_size=_MOST_ROWS, columns=[name])
                if any(batch.column(0).null_count < batch.num_rows for batch in batches):
                    held.add(name)
        return frozenset(held)

    def value_range(self, column: str) -> tuple[float, float] | None:
        """Return (smallest, largest) leaf value by the footer's statistics, or None where it does not tell."""
        with self._open() as parquet:
            chunks = [c for c in self._chunks(parquet.metadata).get(column, ()) if c.num_values]
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
            groups = _row_groups(parquet, here, columns, max_tokens)
            while True:
                try:
                    batch = next(groups, None)
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

    def _chunks(self, metadata: Any) -> dict[str, list[Any]]:
        chunks: dict[str, list[Any]] = {}
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            for index in range(row_group.num_columns):
                chunk = row_group.column(index)
                chunks.setdefault(chunk.path_in_schema.split(".", 1)[0], []).append(chunk)
        return chunks


class TablePart:
    """Rows that an importer built in memory."""

    def __init__(self, table: pa.Table, *, name: str) -> None:
        """Cast ``table`` to the canonical types; columns that the schema does not know are set aside.

        Raises
        ------
        BadLog
            A column has a type that cannot mean what the schema says, or a value does not fit.
        """
        self._name = name
        self._unknown = tuple(column for column in table.column_names if column not in BY_NAME)
        self._types = {c: table.schema.field(c).type for c in table.column_names if c in BY_NAME}
        kept = [c.name for c in COLUMNS if c.name in self._types]
        # Batch by batch: one array of a whole text column may not exceed 2 GiB.
        self._batches = [
            canonical_batch(batch, kept, name)
            for batch in table.select(kept).to_batches(max_chunksize=_MOST_ROWS)
        ]
        self._num_rows = int(table.num_rows)
        self._holding = frozenset(
            column
            for column in kept
            if any(b[column].null_count < b.num_rows for b in self._original(table, column))
        )

    @staticmethod
    def _original(table: pa.Table, column: str) -> list[pa.RecordBatch]:
        return list(table.select([column]).to_batches())

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._name

    @property
    def num_rows(self) -> int:
        """Number of responses."""
        return self._num_rows

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """Types, as given, of the schema columns that the table has."""
        return self._types

    @property
    def unknown(self) -> tuple[str, ...]:
        """Columns of the table that the schema does not know."""
        return self._unknown

    def holding(self, columns: frozenset[str]) -> frozenset[str]:
        """Return those of ``columns`` that hold at least one value."""
        return self._holding & columns

    def batches(self, columns: Sequence[str], *, max_tokens: int) -> Iterator[pa.RecordBatch]:
        """Yield canonical batches in row order."""
        for batch in self._batches:
            yield from split_by_tokens(canonical_batch(batch, columns, self._name), max_tokens)


def batch_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of what batches() yields: canonical types, all nullable, since logs may be wrong."""
    return pa.schema([pa.field(name, BY_NAME[name].arrow_type) for name in columns])


def canonical_batch(batch: pa.RecordBatch, columns: Sequence[str], where: str) -> pa.RecordBatch:
    """Return ``columns`` of ``batch`` in canonical types; absent ones read as null or their default."""
    names = set(batch.schema.names)
    arrays = [
        to_canonical(batch.column(name), name, where)
        if name in names
        else empty_column(BY_NAME[name], batch.num_rows)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch_schema(columns))


def split_by_tokens(batch: pa.RecordBatch, max_tokens: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that each piece has at most ``max_tokens`` tokens, or one row.

    The tokens of a row are its longest token list, or its ``length`` where that is larger.
    """
    ends = np.cumsum(_tokens_per_row(batch))
    start, spent = 0, 0
    while start < batch.num_rows:
        stop = max(int(np.searchsorted(ends, spent + max_tokens, side="right")), start + 1)
        yield batch.slice(start, stop - start)
        start, spent = stop, int(ends[stop - 1])


def _tokens_per_row(batch: pa.RecordBatch) -> np.ndarray:
    tokens = np.zeros(batch.num_rows, dtype=np.int64)
    for name in batch.schema.names:
        column = batch[name]
        if name in TOKEN_LISTS:
            lengths = np.diff(np.asarray(column.offsets))
        elif name == "length":
            lengths = np.asarray(column.fill_null(0))
        else:
            continue
        tokens = np.maximum(tokens, lengths)
    return tokens


def _row_groups(
    parquet: Any, here: list[str], columns: Sequence[str], max_tokens: int
) -> Iterator[pa.RecordBatch]:
    """Read row group by row group, about ``max_tokens`` tokens at a time."""
    metadata = parquet.metadata
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        rows = row_group.num_rows
        if not here:
            for start in range(0, rows, _MOST_ROWS):
                yield _rows_only(min(_MOST_ROWS, rows - start))
            continue
        tokens = max(
            (
                row_group.column(i).num_values
                for i in range(row_group.num_columns)
                if row_group.column(i).path_in_schema.split(".", 1)[0] in TOKEN_LISTS
                and row_group.column(i).path_in_schema.split(".", 1)[0] in columns
            ),
            default=rows,
        )
        size = max(1, min(_MOST_ROWS, math.ceil(max_tokens * rows / max(tokens, 1))))
        yield from parquet.iter_batches(batch_size=size, row_groups=[group], columns=here)


def _rows_only(rows: int) -> pa.RecordBatch:
    """Return a batch that has rows and no column of the schema."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])


def _has_value(chunk: Any) -> bool:
    statistics = chunk.statistics
    return bool(
        statistics is not None and statistics.has_null_count and statistics.null_count < chunk.num_values
    )
