"""Numbers and foreign strings as people read them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.report import format as fmt
from audit.stats import Estimate


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (0.4291, 0.3982, 0.4611, "0.429 [0.398, 0.461]"),
        (10.62, 10.29, 10.97, "10.62 [10.29, 10.97]"),
        (12345.6, 11000.0, 13000.0, "12,346 [11,000, 13,000]"),
        (0.5, None, None, "0.5 [no interval]"),
        (0.5, math.nan, math.nan, "0.5 [no interval]"),
        (None, None, None, "–"),
        (math.nan, 0.0, 1.0, "–"),
        (1e-17, -1e-16, 1e-16, "0 [0, 0]"),
        (2.0, 2.0, 2.0, "2 [2, 2]"),
        (0.09, 0.0009, 0.16, "0.0900 [0.0009, 0.1600]"),
    ],
)
def test_an_interval_shares_its_decimals_with_the_value(value, low, high, said) -> None:
    assert fmt.interval(value, low, high) == said


def test_an_end_that_is_not_zero_is_not_shown_as_zero() -> None:
    assert fmt.interval(0.5, 0.001, 1.0, sign=True) == "+0.500 [+0.001, +1.000]"
    assert fmt.interval(0.5, -0.001, 1.0) == "0.5 [0.0, 1.0]"


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e3), st.floats(1e-6, 1e3))
def test_an_interval_that_excludes_zero_still_does_when_shown(value, below, above) -> None:
    low, high = value - below, value + above
    said = fmt.interval(value, low, high)
    ends = [float(x.replace(",", "")) for x in said.partition("[")[2].strip("]").split(", ")]
    if low > 1e-6:
        assert ends[0] > 0
    if high < -1e-6:
        assert ends[1] < 0


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.8912, "89 %"), (0.004, "<1 %"), (-0.004, ">-1 %"), (0.0, "0 %"), (None, "–"), (1.02, "102 %")],
)
def test_a_share_that_is_not_nothing_is_not_shown_as_nothing(share, said) -> None:
    assert fmt.percent(share) == said


def test_shares_show_the_digits_that_their_interval_bears() -> None:
    assert fmt.percent_interval(0.94, 0.98) == "[94, 98] %"
    assert fmt.percent_interval(0.4991, 0.5012) == "[49.9, 50.1] %"
    assert fmt.percent_estimate(Estimate(0.117, 0.038, 0.217, 240)) == "12 [4, 22] %"
    assert fmt.percent_estimate(None) == "–"


def test_sizes_of_weights_are_factors() -> None:
    log = math.log
    assert fmt.factor_estimate(Estimate(log(0.5), log(0.4), log(0.6), 9)) == "× 0.50 [0.40, 0.60]"


@given(st.text())
def test_what_is_visible_prints_on_one_line_and_plain_text_stays(text) -> None:
    shown = fmt.visible(text)
    assert shown.isprintable()
    if text.isprintable() and len(text) <= fmt.LONGEST_WORD:
        assert shown == text


@pytest.mark.parametrize("text", ["N" * 1_000_000, "a word " * 150_000, "\x00" * 1_000_000])
def test_a_text_of_a_megabyte_is_cut_and_its_length_told(text) -> None:
    shown = fmt.visible(f"run {text}, read")
    assert len(shown) <= 4 * fmt.LONGEST + 100
    assert shown.startswith("run ")
    assert shown.endswith("read")
    left, told = re.findall(r"…\[([\d,]+) characters\]…", shown)[0].replace(",", ""), len(text)
    assert 0.99 * told < int(left) < told
    assert fmt.visible_lines(f"{text}\nend") == fmt.visible(text, whole=True) + "\nend"


def test_a_path_as_long_as_paths_are_stays_whole() -> None:
    path = "/data/" + "/".join(["a-directory-with-a-name"] * 16)
    assert fmt.visible(f"{path}: no such file") == f"{path}: no such file"


@pytest.mark.parametrize("character", ["\x1b", "\n", "\u202e", "\u200b", "\x9b", "\udc80", "\x00"])
def test_characters_that_act_are_shown_by_their_code(character) -> None:
    assert fmt.visible(f"a{character}b").startswith("a\\")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "none"),
        (True, "yes"),
        (False, "no"),
        (1, "1"),
        (1e-4, "0.0001"),
        ([0.0, 1.0], "[0, 1]"),
        ({"coefficient": 0.04, "estimator": "k3"}, "0.04 k3"),
        ({"max_length": 5}, "max_length 5"),
        ("\x1b[2J", "\\x1b[2J"),
    ],
)
def test_settings_are_told_short(value, said) -> None:
    assert fmt.setting(value) == said
