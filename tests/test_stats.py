"""Intervals that cover what they should, and clusters that stay together."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit import stats
from audit.stats import RESAMPLES, Estimate, bootstrap, cluster_sums, mean, ratio_of_sums, same_mix


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-9, 9)), min_size=1, max_size=30))
def test_cluster_sums_are_a_loop(pairs: list[tuple[int, float]]) -> None:
    cluster = np.array([c for c, _ in pairs])
    values = np.array([[v, 1.0] for _, v in pairs])
    sums = cluster_sums(values, cluster)
    for c in range(cluster.max() + 1):
        assert sums[c, 0] == pytest.approx(sum(v for k, v in pairs if k == c), abs=1e-9)
        assert sums[c, 1] == sum(k == c for k, _ in pairs)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        centres = rng.normal(0.0, 1.0, 40)
        cluster = np.repeat(np.arange(40), 8)
        e = mean(centres[cluster] + rng.normal(0.0, 0.5, 320), cluster)
        hits += e.low <= 0.0 <= e.high
    assert 0.88 <= hits / 200 <= 0.99


def test_treating_correlated_responses_as_independent_would_be_far_too_narrow() -> None:
    rng = np.random.default_rng(6)
    cluster = np.repeat(np.arange(30), 16)
    values = rng.normal(0.0, 1.0, 30)[cluster]
    by_prompt = mean(values, cluster)
    alone = mean(values, np.arange(len(values)))
    assert (by_prompt.high - by_prompt.low) > 3 * (alone.high - alone.low)


def test_one_cluster_has_no_interval() -> None:
    assert mean(np.array([1.0, 3.0]), np.zeros(2, dtype=int)) == Estimate(2.0, None, None, 2)


def test_values_that_are_not_finite_are_left_out_and_not_counted() -> None:
    e = mean(np.array([1.0, np.nan, 3.0, np.inf]), np.array([0, 1, 2, 3]))
    assert (e.value, e.n) == (2.0, 2)


def test_nothing_has_no_value() -> None:
    e = mean(np.array([np.nan]), np.array([0]))
    assert (e.value, e.low, e.high, e.n) == (None, None, None, 0)


def test_an_undefined_ratio_is_none() -> None:
    e = ratio_of_sums(np.array([1.0, 1.0]), np.zeros(2), np.array([0, 1]), 2)
    assert e.value is None
    assert not e.excludes(0.0)


def test_the_same_data_give_the_same_interval() -> None:
    sums = np.random.default_rng(0).normal(size=(12, 2)) + 5
    first, second = (bootstrap(sums, lambda t: t[..., :1] / t[..., 1:]) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_excludes_is_strict_about_both_ends() -> None:
    assert Estimate(1.0, 0.5, 1.5, 9).excludes(0.0)
    assert Estimate(-1.0, -1.5, -0.5, 9).excludes(0.0)
    assert not Estimate(1.0, 0.0, 2.0, 9).excludes(0.0)
    assert not Estimate(1.0, None, None, 1).excludes(0.0)


def test_few_clusters_do_not_make_the_interval_too_narrow() -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(300):
        cluster = np.repeat(np.arange(6), 8)
        e = mean(rng.normal(0.0, 1.0, 6)[cluster] + rng.normal(0.0, 0.5, 48), cluster)
        hits += e.low <= 0.0 <= e.high
    assert 0.90 <= hits / 300 <= 0.99


def test_what_rounding_leaves_of_zero_is_zero() -> None:
    e = mean(np.array([1e-16, 3e-16, 2e-16]), np.array([0, 1, 2]))
    assert (e.value, e.low, e.high) == (0.0, 0.0, 0.0)


def test_one_cluster_that_says_anything_has_no_interval() -> None:
    e = ratio_of_sums(
        np.array([2.0, 4.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 2]), 4
    )
    assert (e.value, e.low, e.high) == (3.0, None, None)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=12).filter(
        lambda pairs: all(sum(row) for row in zip(*pairs, strict=True)) and sum(map(any, pairs)) > 1
    )
)
def test_same_mix_is_the_chi_square_test_of_scipy(pairs: list[tuple[int, int]]) -> None:
    from scipy.stats import chi2_contingency

    table = np.array([pair for pair in pairs if any(pair)]).T
    assert same_mix(np.array(pairs).T) == pytest.approx(chi2_contingency(table).pvalue, rel=1e-9, abs=1e-300)


def test_one_kind_or_an_empty_side_tells_nothing_of_a_mix() -> None:
    assert same_mix(np.array([[3], [9]])) == 1.0
    assert same_mix(np.array([[3, 4], [0, 0]])) == 1.0


def totals(sums: np.ndarray) -> np.ndarray:
    return sums[..., :1] / sums[..., 1:2]


@pytest.mark.parametrize("block", [1, 7 * 40, 2**21])
def test_resamples_in_blocks_are_those_of_one_draw(block: int, monkeypatch) -> None:
    monkeypatch.setattr(stats, "BLOCK", block)
    stats._resamples.cache_clear()
    sums = np.random.default_rng(3).normal(2.0, 1.0, (40, 2))
    drawn = np.random.default_rng(0).multinomial(40, np.full(40, 1 / 40), size=RESAMPLES)
    found = stats._resampled(sums, 0)
    stats._resamples.cache_clear()
    np.testing.assert_allclose(found, drawn.astype(float) @ sums, rtol=1e-13)


def test_resamples_that_are_not_kept_draw_every_cluster_equally_often_and_give_the_same_interval(
    monkeypatch,
) -> None:
    sums = np.random.default_rng(4).normal(2.0, 1.0, (300, 2))
    kept = bootstrap(sums, totals)
    monkeypatch.setattr(stats, "KEPT", 0)
    monkeypatch.setattr(stats, "BLOCK", 300 * 100)
    again = bootstrap(sums, totals)
    assert again[0] == kept[0]
    width = float(kept[2][0] - kept[1][0])
    assert again[1] == pytest.approx(kept[1], abs=0.1 * width)
    assert again[2] == pytest.approx(kept[2], abs=0.1 * width)
    counts = stats._resampled(np.eye(300), 0)
    assert counts.shape == (RESAMPLES, 300)
    assert (counts.sum(axis=1) == 300).all()
    # Each mean count is 1 with a standard error of 1 / sqrt(1999); 5 of them for 300 clusters.
    assert np.abs(counts.mean(axis=0) - 1.0).max() < 5 / RESAMPLES**0.5


def test_the_interval_of_many_prompts_takes_bounded_memory(monkeypatch) -> None:
    monkeypatch.setattr(stats, "KEPT", 0)
    monkeypatch.setattr(stats, "BLOCK", 2**16)
    sums = np.ones((2000, 2))
    bootstrap(sums, totals)
    tracemalloc.start()
    bootstrap(sums, totals)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All draws at once are 32 MB; a block is 0.5 MB, held as a list, an array and floats.
    assert peak < 4e6
