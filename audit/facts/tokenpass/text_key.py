"""What is kept of each response's token ids: a key by which equal texts are found, and the last id."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import xxhash

from audit.logs.arrays import to_numpy, valid

NO_TEXT = 0
"""Key of a response whose token ids were not logged."""


def text_keys(column: pa.Array) -> np.ndarray:
    """64-bit hash (XXH3) of the token ids of each row, int64, shape (R,); 0 where they were not logged.

    Two different texts of a run of 10^6 responses share a key with probability 3e-8.
    """
    offsets = to_numpy(column.offsets).astype(np.int64) * 4
    values = np.ascontiguousarray(to_numpy(column.values), dtype="<i4")
    ids = memoryview(values.tobytes() if values.nbytes == 0 else values.view(np.uint8).data)
    hashes = (xxhash.xxh3_64_intdigest(ids[low:high]) for low, high in pairwise(offsets))
    made = np.fromiter(hashes, dtype=np.uint64, count=len(column)).view(np.int64)
    return np.where(valid(column), np.where(made == NO_TEXT, 1, made), NO_TEXT)


def last_tokens(column: pa.Array) -> np.ndarray:
    """Last token id of each row, int64, shape (R,); -1 where the row is empty or was not logged."""
    offsets = to_numpy(column.offsets).astype(np.int64)
    some = (np.diff(offsets) > 0) & valid(column)
    made = np.full(len(column), -1, dtype=np.int64)
    made[some] = to_numpy(column.values)[offsets[1:][some] - 1]
    return made
