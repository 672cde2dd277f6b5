"""Gini index and Lorenz curve against double loops and distributions of known inequality."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.analyses.inequality import gini, lorenz

AMOUNTS = st.lists(st.integers(0, 50), min_size=2, max_size=12).filter(any)


@given(AMOUNTS)
def test_the_index_is_half_the_relative_mean_difference(amounts) -> None:
    pairs = [abs(a - b) for i, a in enumerate(amounts) for j, b in enumerate(amounts) if i != j]
    expected = sum(pairs) / len(pairs) / (2 * sum(amounts) / len(amounts))
    found = gini(np.array(amounts), 7)
    assert found.value == pytest.approx(min(expected, 1.0), abs=1e-12)
    assert found.n == 7
    assert 0.0 <= found.low <= found.high <= 1.0


@given(AMOUNTS, st.integers(2, 9))
def test_the_curve_is_the_share_of_the_lightest(amounts, points) -> None:
    held = sorted(amounts)
    curve = lorenz(np.array(amounts), points)
    assert curve[0] == (0.0, 0.0)
    assert curve[-1] == pytest.approx((1.0, 1.0))
    for x, y in curve:
        whole = int(x * len(held) + 1e-9)
        rest = x * len(held) - whole
        expected = sum(held[:whole]) + (rest * held[whole] if rest > 1e-9 else 0.0)
        assert y == pytest.approx(expected / sum(held))


def test_equal_shares_and_one_owner() -> None:
    assert gini(np.ones(5), 5).value == pytest.approx(0.0)
    assert gini(np.array([0.0, 0.0, 0.0, 1.0]), 4).value == pytest.approx(1.0)


@pytest.mark.parametrize("amounts", [[], [3.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_nothing_is_said_where_nothing_is_shared(amounts) -> None:
    assert gini(np.array(amounts), 0).value is None
    assert lorenz(np.array(amounts))[1:] == [] or len(amounts) == 1


def test_the_interval_covers_the_index_of_the_exponential_distribution() -> None:
    rng = np.random.default_rng(0)
    found = [gini(rng.exponential(size=40), 40) for _ in range(300)]
    assert np.mean([e.value for e in found]) == pytest.approx(0.5, abs=0.01)
    assert np.mean([e.low <= 0.5 <= e.high for e in found]) > 0.9
