"""Arrow arrays as NumPy arrays and back, without the import of pandas.

Arrow's own conversions import pandas if it is installed: 0.3 s at the start of every command.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt


def to_numpy(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Values of an array, shape (len(array),); numbers without nulls are read where they are, read-only.

    Numbers with nulls become float64 with NaN for null. Booleans have no nulls here. Other types are left to
    :meth:`pyarrow.Array.to_numpy`.
    """
    one: Any = _one(array)
    if pt.is_boolean(one.type) and one.null_count == 0:
        return _bits(one.buffers()[1], one.offset, len(one))
    if not (pt.is_integer(one.type) or pt.is_floating(one.type)):
        return np.asarray(one.to_numpy(zero_copy_only=False))
    if one.null_count == 0:
        return np.from_dlpack(one) if len(one) else np.zeros(0, dtype=one.type.to_pandas_dtype())
    bare = pa.Array.from_buffers(one.type, len(one), [None, one.buffers()[1]], offset=one.offset)
    values = np.from_dlpack(bare).astype(np.float64)
    values[~valid(one)] = np.nan
    return values


def valid(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Where the array is not null, bool, shape (len(array),)."""
    one: Any = _one(array)
    if one.null_count == 0:
        return np.ones(len(one), dtype=bool)
    if pt.is_null(one.type):
        return np.zeros(len(one), dtype=bool)
    return _bits(one.buffers()[0], one.offset, len(one))


def codes_of(encoded: pa.DictionaryArray) -> np.ndarray:
    """Place of each value in the dictionary, int64, shape (len(encoded),); -1 where it is null."""
    found = np.nan_to_num(to_numpy(encoded.indices), nan=-1.0)
    return np.asarray(found, dtype=np.int64)


def from_numpy(values: np.ndarray) -> pa.Array:
    """An array without nulls over the memory of ``values``, one-dimensional numbers."""
    held = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(held.dtype), len(held), [None, pa.py_buffer(held)])


def zeros(length: int, kind: pa.DataType) -> pa.Array:
    """An array of zeros, or of false, of a type of fixed width."""
    width = (length * kind.bit_width + 7) // 8
    return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(bytes(width))])


def _one(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _bits(buffer: Any, offset: int, length: int) -> np.ndarray:
    """Bits of an Arrow bitmap, least significant first."""
    if not length:
        return np.zeros(0, dtype=bool)
    found = np.unpackbits(np.frombuffer(buffer, dtype=np.uint8), bitorder="little", count=offset + length)
    return found[offset:].view(bool)
