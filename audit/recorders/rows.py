"""From the padded arrays of a trainer to rows of the rollout schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[np.generic]
Mask = NDArray[np.bool_]


def list_column(
    values: Array, valid: Mask, value_type: pa.DataType, *, present: Mask | None = None
) -> pa.ListArray:
    """Pack one padded array into a list column.

    Parameters
    ----------
    values : ndarray, shape (B, T)
        One value per token, padded on the right.
    valid : ndarray of bool, shape (B, T)
        True at the tokens of each response.
    value_type : pyarrow.DataType
        Type of one value.
    present : ndarray of bool, shape (B,), optional
        Rows that have values; the others become null.
    """
    if present is not None:
        valid = valid & present[:, None]
    offsets = np.concatenate([[0], valid.sum(axis=1).cumsum()]).astype(np.int32)
    flat = pa.array(np.ascontiguousarray(values[valid]), type=value_type, from_pandas=False)
    missing = None if present is None else pa.array(~present)
    return pa.ListArray.from_arrays(pa.array(offsets), flat, mask=missing)


def map_column(rows: Sequence[Mapping[str, float | None]]) -> pa.MapArray:
    """Pack named values of each row into a map<string, double> column."""
    items = [list(row.items()) for row in rows]
    return pa.array(items, type=pa.map_(pa.string(), pa.float64()))


def nullable(values: NDArray[np.float64]) -> pa.Array:
    """Return a double column in which NaN is null."""
    return pa.array(values, type=pa.float64(), mask=np.isnan(values))
