"""Values as frameworks write them."""

from __future__ import annotations

import contextlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.importers.values import (
    OddValue,
    flag,
    flags,
    identifier,
    integer,
    integers,
    number,
    numbers,
    text,
    unwrapped,
)

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JUNK)
def test_any_value_is_converted_or_named(value) -> None:
    for read in (number, integer, flag, identifier, numbers, integers, flags):
        # Any other error fails the test.
        with contextlib.suppress(OddValue):
            read(value, "x")
    assert text(value) is None or isinstance(text(value), str)


@given(st.floats(), st.integers(0, 3))
def test_a_number_survives_text_and_wrapping(value, depth) -> None:
    for written in (value, repr(value), json.dumps(value), f" {value!r} "):
        wrapped = written
        for _ in range(depth):
            wrapped = [wrapped]
        found = number(wrapped, "x")
        assert found == value or (math.isnan(value) and math.isnan(found))


@given(st.integers(-(2**80), 2**80))
def test_whole_numbers_keep_every_digit(value) -> None:
    assert integer(value, "x") == integer(str(value), "x") == integer([value], "x") == value
    assert identifier(value, "x") == str(value)


@pytest.mark.parametrize("value", [2.0**53 + 2, -(2.0**60), np.float64(1e300)])
def test_a_float_too_large_to_be_exact_is_no_id(value) -> None:
    with pytest.raises(OddValue, match=r"2\*\*53"):
        integer(value, "x")
    with pytest.raises(OddValue, match=r"2\*\*53"):
        identifier(value, "x")


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (number, "three"),
        (number, [1.0, 2.0]),
        (number, {}),
        (integer, 1.5),
        (integer, float("inf")),
        (flag, 2),
        (flag, "maybe"),
        (identifier, [1, 2]),
        (identifier, {"a": 1}),
        (numbers, 3.0),
        (numbers, [1.0, "x"]),
        (numbers, "[1.0]"),
        (integers, [1, None]),
        (integers, [1, 2.5]),
        (flags, [True, None]),
        (flags, [0, 2]),
    ],
)
def test_what_cannot_mean_it_is_odd(read, value) -> None:
    with pytest.raises(OddValue):
        read(value, "x")


def test_hostile_numbers_are_odd_or_a_number() -> None:
    for value in (10**400, -(10**5000), "9" * 10_000, "+-5", "1_000", "\u0665x", [[[{}]]]):
        for read in (number, integer, flag, identifier):
            with contextlib.suppress(OddValue):
                assert read(value, "x") is not None


@pytest.mark.parametrize("read", [number, integer, flag, identifier, numbers, integers, flags])
def test_nothing_is_nothing(read) -> None:
    assert read(None, "x") is None


def test_lists_keep_nan_and_null_apart() -> None:
    found = numbers([0.0, None, float("nan"), "1e-3", True], "x")
    assert found[1] is None
    assert math.isnan(found[2])
    assert (found[0], *found[3:]) == (0.0, 1e-3, 1.0)
    assert numbers([[1.0, 2.0]], "x") == [1.0, 2.0]
    assert numbers([5.0], "x") == [5.0]
    assert integers(["7", 8.0], "x") == [7, 8]
    assert flags([0, 1.0, "true", False], "x") == [False, True, True, False]


def test_unwrapped_takes_only_lists_of_one() -> None:
    assert unwrapped([[(3,)]]) == 3
    assert unwrapped([1, 2]) == [1, 2]
    assert unwrapped([]) == []


@given(st.text())
def test_text_stays_as_it_is(value) -> None:
    assert text(value) == value


def test_text_of_conversations_parts_tools_and_surrogates() -> None:
    said = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]},
    ]
    assert text(said) == 'user: a\n[image]\nassistant: \n[{"name": "f"}]'
    assert text([said[0]]) == "user: a\n[image]"
    assert text("\ud800") == "?"
    assert text({"b": 1, "a": "é"}) == '{"a": "é", "b": 1}'


def test_reasoning_stands_before_what_is_said_and_odd_parts_are_text() -> None:
    told = [
        {"role": "assistant", "reasoning_content": "so", "content": "4"},
        {"role": "user", "content": [{"type": "text", "text": 7}, {"type": "image_url"}, 3]},
    ]
    assert text(told) == "assistant: so\n4\nuser: 7\n[image_url]\n3"


def test_lone_surrogates_are_replaced_wherever_text_comes_from() -> None:
    told = [{"role": "user", "content": "a\ud800"}]
    assert text(told) == "user: a?"
    assert text({"a": "\ud800"}) == '{"a": "?"}'
    assert text("a\ud800") == "a?"
