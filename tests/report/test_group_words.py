"""Groups without signal in words: the numbers are those of the analysis, and what they mean is said."""

from __future__ import annotations

import msgspec
import pytest
from synthetic import rollouts, write

import audit as rlaudit
from audit.report import format as fmt
from audit.report.group_words import headline
from audit.stats import Estimate


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    path = tmp_path_factory.mktemp("one")
    write(path, rollouts(steps=6), "grpo")
    return rlaudit.groups(path)


def test_the_headline_has_every_number_with_its_n(result) -> None:
    said = headline(result)
    zero = result.zero_signal
    assert said.startswith(f"{fmt.percent_estimate(zero.all)} of the groups carry no signal")
    assert f"(n = {zero.all.n})" in said
    for name, e in (("all correct", zero.right), ("all wrong", zero.wrong)):
        assert (f"{name} {fmt.percent_estimate(e)}" in said) == bool(e.value)


@pytest.mark.parametrize(
    ("low", "high", "than"),
    [(0.01, 0.05, "more than"), (-0.05, -0.01, "fewer than"), (-0.01, 0.05, "as many as")],
)
def test_more_or_fewer_is_said_only_where_the_interval_excludes_0(result, low, high, than) -> None:
    gap = Estimate((low + high) / 2, low, high, 480)
    expected = msgspec.structs.replace(result.expected, difference=gap)
    said = headline(msgspec.structs.replace(result, expected=expected))
    assert f"That is {than} the success rates" in said
    assert f"[{100 * low:+.1f}, {100 * high:+.1f}] points, n = 480" in said
