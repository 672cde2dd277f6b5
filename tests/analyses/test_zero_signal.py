"""Groups without signal: exact shares, and the estimator for other group sizes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.analyses.zero_signal import silences, zero_signal, zero_signal_estimate
from audit.objectives.catalogue import named


def test_known_shares_at_eight_responses() -> None:
    shares = [100 * s.equal for s in silences(named("grpo"), 8, (0.02, 0.71, 0.44))]
    assert [round(s, 1) for s in shares] == [85.1, 6.5, 1.1]


def test_a_distribution_of_rewards() -> None:
    assert zero_signal((0.5, 0.3, 0.2), 3) == pytest.approx(0.125 + 0.027 + 0.008)
    assert zero_signal((1.0,), 5) == 1.0


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(lambda c: 0 < sum(c) <= 8), st.data())
def test_the_estimator_is_the_share_of_subsets_that_are_alike(counts, data) -> None:
    pooled = [value for value, count in enumerate(counts) for _ in range(count)]
    size = data.draw(st.integers(1, len(pooled)))
    subsets = list(itertools.combinations(pooled, size))
    alike = sum(len(set(subset)) == 1 for subset in subsets) / len(subsets)
    assert zero_signal_estimate(np.array(counts), size) == pytest.approx([alike])


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_estimator_is_unbiased(size) -> None:
    p, n = 0.3, 5
    expected = 0.0
    for rewards in itertools.product((0, 1), repeat=n):
        k = sum(rewards)
        expected += p**k * (1 - p) ** (n - k) * zero_signal_estimate(np.array([n - k, k]), size).item()
    assert expected == pytest.approx(zero_signal((1 - p, p), size))


def test_a_pool_smaller_than_the_group_says_nothing_and_does_not_disturb_others() -> None:
    counts, pool = np.array([3, 5, 4, 1]), np.array([0, 0, 1, 2])
    made = zero_signal_estimate(counts, np.array([9, 3, 1]), pool)
    assert np.isnan(made[0])
    assert made[1:].tolist() == pytest.approx([1.0, 1.0])
    assert zero_signal_estimate(counts, np.array([4, 3, 1]), pool)[0] == pytest.approx(5 / 70)


def test_large_pools_agree_with_exact_integers() -> None:
    counts = np.array([700, 300])
    exact = (math.comb(700, 64) + math.comb(300, 64)) / math.comb(1000, 64)
    assert zero_signal_estimate(counts, 64) == pytest.approx([exact], rel=1e-9)


def test_an_objective_may_be_silent_more_often_or_less() -> None:
    best = silences(named("pass_at_k_best"), 8, (0.5,))[0]
    assert best.no_advantage == pytest.approx(1 - 8 * 0.5**8)
    plain = silences(named("reinforce"), 8, (0.5,))[0]
    assert plain.no_advantage == pytest.approx(0.5**8)
    assert plain.equal == pytest.approx(2 * 0.5**8)
    assert silences(named("grpo"), 8, (0.0, 1.0))[0].no_advantage == 1.0
