"""Arrow batches in canonical types, cut to a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from audit.logs.arrays import to_numpy
from audit.logs.canonical import empty_column, to_canonical
from audit.schema import BY_NAME, TOKEN_LISTS

MOST_ROWS = 16_384
"""Rows of one batch where nothing else bounds it."""


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
            lengths = np.diff(to_numpy(column.offsets))
        elif name == "length":
            lengths = to_numpy(column.fill_null(0) if column.null_count else column)
        else:
            continue
        tokens = np.maximum(tokens, lengths)
    return tokens
