"""Arrow arrays as NumPy arrays and back, without the import of pandas.

Arrow's own conversions import pandas if it is installed, 0.3 s at the start of every command that meets one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt


def to_numpy(array: pa.Array) -> np.ndarray:
    """Values of an array, shape (len(array),); numbers without nulls are read where they are, read-only.

    Nulls become NaN, as :meth:`pyarrow.Array.to_numpy` has it.
    """
    if array.null_count == 0 and len(array) and (pt.is_integer(array.type) or pt.is_floating(array.type)):
        return np.from_dlpack(array)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def valid(array: pa.Array) -> np.ndarray:
    """Where the array is not null, bool, shape (len(array),)."""
    if array.null_count == 0:
        return np.ones(len(array), dtype=bool)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def from_numpy(values: np.ndarray) -> pa.Array:
    """An array without nulls over the memory of ``values``, one-dimensional numbers."""
    held = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(held.dtype), len(held), [None, pa.py_buffer(held)])
