"""From the padded arrays of a trainer to columns of the rollout schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[np.generic]
Mask = NDArray[np.bool_]


class Padded(NamedTuple):
    """One value per token of some responses, padded to one width."""

    values: Array | None
    """Shape (B, T); None: not logged for these responses."""
    valid: Mask
    """Shape (B, T): True at the tokens of each response, wherever the padding stands."""
    present: Mask | None = None
    """Shape (B,): responses that have values; the others become null. None: all of them."""


def list_column(parts: Sequence[Padded], value_type: pa.DataType) -> pa.ListArray:
    """Pack padded arrays, one below the other, into one list column without padding.

    Parameters
    ----------
    parts : sequence of Padded
        At least one; their widths may differ.
    value_type : pyarrow.DataType
        Type of one value.
    """
    flats, counts, missing = [], [], []
    for values, valid, present in parts:
        size = len(valid)
        if values is None:
            counts.append(np.zeros(size, dtype=np.int64))
            missing.append(np.ones(size, dtype=np.bool_))
            continue
        kept = valid if present is None else valid & present[:, None]
        flats.append(values[kept])
        counts.append(kept.sum(axis=1))
        missing.append(np.zeros(size, dtype=np.bool_) if present is None else ~present)
    offsets = np.concatenate([[0], *counts]).cumsum().astype(np.int32)
    flat = np.concatenate(flats) if flats else np.zeros(0)
    absent = np.concatenate(missing)
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.array(np.ascontiguousarray(flat), type=value_type, from_pandas=False),
        mask=pa.array(absent) if absent.any() else None,
    )


def map_column(rows: Sequence[Mapping[str, float | None]]) -> pa.MapArray:
    """Pack named values of each row into a map<string, double> column."""
    items = [list(row.items()) for row in rows]
    return pa.array(items, type=pa.map_(pa.string(), pa.float64()))


def nullable(values: NDArray[np.float64]) -> pa.Array:
    """Return a double column in which NaN is null."""
    return pa.array(values, type=pa.float64(), mask=np.isnan(values))
