"""Arrow arrays as NumPy arrays, against Arrow's own conversion."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.logs.arrays import codes_of, from_numpy, to_numpy, valid, zeros

TYPES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**53), 2**53),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
}


@given(data=st.data(), kind=st.sampled_from(list(TYPES)), nulls=st.booleans())
def test_numbers_are_those_that_arrow_gives(data: st.DataObject, kind: pa.DataType, nulls: bool) -> None:
    one = st.none() | TYPES[kind] if nulls else TYPES[kind]
    values: list[Any] = data.draw(st.lists(one, max_size=40))
    start = data.draw(st.integers(0, len(values)))
    array = pa.array(values, kind).slice(start, data.draw(st.integers(0, 40)))
    found = to_numpy(array)
    expected = array.cast(pa.float64(), safe=False) if array.null_count else array
    np.testing.assert_array_equal(found, expected.to_numpy(zero_copy_only=False))
    np.testing.assert_array_equal(valid(array), [value is not None for value in array.to_pylist()])
    chunked = pa.chunked_array([array, array])
    np.testing.assert_array_equal(to_numpy(chunked), np.concatenate([found, found]))


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 40))
def test_booleans(values: list[bool], start: int) -> None:
    array = pa.array(values, pa.bool_()).slice(min(start, len(values)))
    assert to_numpy(array).tolist() == array.to_pylist()
    assert to_numpy(array).dtype == bool


def test_text_is_left_to_arrow_and_null_columns_are_null() -> None:
    assert to_numpy(pa.array(["a", None])).tolist() == ["a", None]
    assert valid(pa.nulls(3)).tolist() == [False] * 3
    assert valid(pa.array(["a", None, "b"]).slice(1)).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.float32])
def test_back_and_forth(dtype: type) -> None:
    values = np.arange(5, dtype=dtype)[::2]
    array = from_numpy(values)
    assert array.to_pylist() == [0, 2, 4]
    np.testing.assert_array_equal(to_numpy(array), values)


@pytest.mark.parametrize("kind", [pa.int32(), pa.bool_(), pa.float64()])
def test_zeros(kind: pa.DataType) -> None:
    assert zeros(9, kind).equals(pa.array([0] * 9).cast(kind))


def test_codes_of_a_dictionary() -> None:
    encoded = pa.array(["b", None, "a", "b"]).dictionary_encode()
    assert codes_of(encoded).tolist() == [0, -1, 1, 0]
    assert codes_of(encoded.slice(2)).tolist() == [1, 0]
    assert codes_of(pa.array([None], pa.string()).dictionary_encode()).tolist() == [-1]


def test_nothing_of_it_imports_pandas() -> None:
    code = """
import sys, pyarrow.parquet as pq, numpy as np
from audit.logs.arrays import from_numpy, to_numpy, valid
to_numpy(from_numpy(np.arange(3))); valid(from_numpy(np.arange(3)))
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
