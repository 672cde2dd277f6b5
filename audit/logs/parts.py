"""Where the rows of a run come from: a Parquet file, or an Arrow table that an importer built.

Both answer the same three questions (how many rows, which columns hold something, the rows as canonical
batches), so that everything above knows one kind of run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from audit.logs.batching import MOST_ROWS, canonical_batch, split_by_tokens
from audit.schema import BY_NAME, COLUMNS


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
        raw = table.select(kept).to_batches(max_chunksize=MOST_ROWS)
        # Before the cast, which turns the nulls of some columns into their default.
        self._holding = frozenset(c for c in kept if any(b[c].null_count < b.num_rows for b in raw))
        self._batches = [canonical_batch(batch, kept, name) for batch in raw]
        self._num_rows = int(table.num_rows)

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
