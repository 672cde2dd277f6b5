"""Equal meaning in many Arrow types → one canonical type; casts that would change a value are refused."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from audit.errors import BadLog
from audit.logs.canonical import to_canonical
from audit.schema import BY_NAME

DOUBLES = pa.list_(pa.float64())
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("logp_old", pa.array([[-1.0, -2.0], None, []], DOUBLES), [[-1.0, -2.0], None, []]),
        ("logp_old", pa.array([[-1], None], pa.list_(pa.int64())), [[-1.0], None]),
        ("logp_old", pa.array([[], None], pa.list_(pa.null())), [[], None]),
        ("logp_old", pa.nulls(2), [None, None]),
        ("logp_old", pa.array([[-1.5]], pa.large_list(pa.float32())), [[-1.5]]),
        ("logp_old", pa.array([[-1.5, 0.0], None], pa.list_(pa.float16(), 2)), [[-1.5, 0.0], None]),
        ("logp_old", pa.array([[-1e300]], DOUBLES), [[-np.inf]]),
        ("logp_old", pa.array([[None, -1.0]], DOUBLES), [[None, -1.0]]),
        ("token_ids", pa.array([[65535]], pa.list_(pa.uint16())), [[65535]]),
        ("token_ids", pa.array([[1.0, 2.0]]), [[1, 2]]),
        ("loss_mask", pa.array([[1, 0], None], pa.list_(pa.int8())), [[True, False], None]),
        ("loss_mask", pa.array([[1.0, 0.0]]), [[True, False]]),
        ("reward", pa.array([1, 0, None]), [1.0, 0.0, None]),
        ("reward", pa.array([True, None]), [1.0, None]),
        ("reward", pa.array([np.float16(0.5)], pa.float16()), [0.5]),
        ("reward", pa.array([decimal.Decimal("0.5")]), [0.5]),
        ("step", pa.array([1.0, 2.0]), [1, 2]),
        ("prompt_id", pa.array([7, 8]), ["7", "8"]),
        ("prompt_id", pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        ("prompt_id", pa.array([5, 6]).dictionary_encode(), ["5", "6"]),
        ("prompt_id", pa.array(["a"], pa.large_string()), ["a"]),
        ("correct", pa.array([1, 0, None]), [True, False, None]),
        ("is_greedy", pa.array([True, None]), [True, False]),
        ("epoch", pa.array([2, None]), [2, 0]),
        ("extra", pa.array(["{}"], pa.json_()), ["{}"]),
        ("created_at", pa.array([1999], pa.timestamp("ns")), [EPOCH + datetime.timedelta(microseconds=1)]),
        ("created_at", pa.array([5], pa.timestamp("s")), [EPOCH + datetime.timedelta(seconds=5)]),
        ("reward_components", pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())), None),
    ],
)  # fmt: skip
def test_accepted(name, array, expected):
    cast = to_canonical(array, name, "here")
    cast.validate(full=True)
    assert cast.type == BY_NAME[name].arrow_type
    assert cast.to_pylist() == (array.to_pylist() if expected is None else expected)


def test_struct_of_components_becomes_a_map_without_its_nulls():
    array = pa.array([{"a": 1, "b": None}, None, {"a": 2, "b": 3.5}])
    expected = [[("a", 1.0)], None, [("a", 2.0), ("b", 3.5)]]
    assert to_canonical(array, "reward_components", "here").to_pylist() == expected
    assert to_canonical(array.slice(1), "reward_components", "here").to_pylist() == expected[1:]


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("kind", [DOUBLES, pa.large_list(pa.float64())])
def test_a_slice_is_cast_like_the_whole(start, kind):
    values = [[-1.0, -2.0], None, [], [-3.0]]
    cast = to_canonical(pa.array(values, kind).slice(start, 2), "logp_old", "here")
    cast.validate(full=True)
    assert cast.to_pylist() == values[start : start + 2]


def test_values_hidden_under_a_null_list_do_not_shift_the_others():
    mask = pa.array([False, True, False])
    array = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4], pa.int32()), pa.array([1.0, 8.0, 9.0, 2.0]), mask=mask
    )
    assert to_canonical(array, "logp_old", "here").to_pylist() == [[1.0], None, [2.0]]


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("logp_old", pa.array([["a"]]), "expected list<float>"),
        ("logp_old", pa.array([0.5]), "type double; expected list<float>"),
        ("reward", pa.array(["0.5"]), "type string; expected double"),
        ("prompt_id", pa.array([1.5]), "type double; expected string"),
        ("created_at", pa.array(["2026-01-01"]), "expected timestamp"),
        ("step", pa.array(["1"]), "expected int64"),
        ("step", pa.array([1.5]), "1.5"),
        ("step", pa.array([1.0, np.nan]), "nan"),
        ("token_ids", pa.array([[2**40]]), "not in range"),
        ("loss_mask", pa.array([[1, 2]]), "value 2 is neither 0 nor 1"),
        ("correct", pa.array([0.5]), "value 0.5 is neither 0 nor 1"),
        ("reward_components", pa.array([{"a": "x"}]), "expected map<string, double>"),
    ],
)
def test_refused_with_file_column_found_and_expected(name, array, said):
    with pytest.raises(BadLog) as caught:
        to_canonical(array, name, "dir/file.parquet")
    message = str(caught.value)
    assert message.startswith("dir/file.parquet: ")
    assert f"'{name}'" in message
    assert said in message
    assert "\n" not in message
