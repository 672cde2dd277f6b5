"""Tails against formulas in loops and against scipy's BCa; ends that stay where they can be."""

from __future__ import annotations

import math
from statistics import NormalDist, mean

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from audit import interval_tails
from audit.interval_tails import cut, tails, without_each
from audit.stats import bootstrap, ratio_of_sums


def average(totals: np.ndarray) -> np.ndarray:
    return totals[..., :1] / totals[..., 1:2]


def slow_tails(value: float, replicates: list[float], left_out: list[float], level: float) -> list[float]:
    normal, known = NormalDist(), [x for x in replicates if not math.isnan(x)]
    below = sum(x < value for x in known) + 0.5 * sum(x == value for x in known)
    d = [mean(left_out) - x for x in left_out]
    power = {k: sum(x**k for x in d) for k in (2, 3, 4, 6)}
    shrink = math.sqrt(max(0.0, 1.0 - power[6] / power[3] ** 2))
    z0 = shrink * normal.inv_cdf(below / len(known))
    a = shrink * power[3] / 6 / power[2] ** 1.5
    carriers = min(3 * power[2] ** 2 / power[4], len(left_out))
    reach = scipy.stats.t(carriers - 1).ppf((1 + level) / 2) * math.sqrt(carriers / (carriers - 1))
    return [normal.cdf(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in (-reach, reach)]


def test_the_tails_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    sample = rng.exponential(size=30)
    replicates = rng.gamma(30, 1 / 30, size=(200, 1)) + 0.02
    replicates[:5] = np.nan
    left_out = np.array([np.delete(sample, i).mean() for i in range(30)])[:, None]
    value = np.array([1.0])
    found = tails(value, replicates, left_out, 30, 0.95)[:, 0]
    slow = slow_tails(1.0, replicates[:, 0].tolist(), left_out[:, 0].tolist(), 0.95)
    assert found == pytest.approx(slow, rel=1e-9)
    assert found[0] > 1.0 - found[1]


def test_of_many_skewed_clusters_the_interval_is_that_of_scipy() -> None:
    sample = np.random.default_rng(1).lognormal(sigma=0.7, size=600)
    value, low, high = bootstrap(np.column_stack([sample, np.ones(600)]), average)
    oracle = scipy.stats.bootstrap(
        (sample,), np.mean, method="BCa", n_resamples=6000, rng=np.random.default_rng(2)
    ).confidence_interval
    width = oracle.high - oracle.low
    assert value[0] == pytest.approx(sample.mean())
    assert low[0] == pytest.approx(oracle.low, abs=0.06 * width)
    assert high[0] == pytest.approx(oracle.high, abs=0.06 * width)


def test_without_skewness_tails_are_equal_and_expanded() -> None:
    left_out = np.array([-1.0, 1.0] * 10)[:, None]
    replicates = np.arange(-50.0, 51.0)[:, None]
    found = tails(np.zeros(1), replicates, left_out, 20, 0.95)[:, 0]
    expanded = NormalDist().cdf(-scipy.stats.t(19).ppf(0.975) * math.sqrt(20 / 19))
    assert found == pytest.approx([expanded, 1.0 - expanded])


def test_a_variance_that_few_clusters_carry_gives_a_wider_interval() -> None:
    replicates = np.arange(-50.0, 51.0)[:, None]
    few = np.array([-1.0, 1.0] + [0.0] * 18)[:, None]
    many = np.array([-1.0, 1.0] * 10)[:, None]
    made = [tails(np.zeros(1), replicates, left_out, 20, 0.95)[0, 0] for left_out in (few, many)]
    assert made[0] < 0.5 * made[1]


def test_the_cut_is_a_quantile_of_the_defined_resamples() -> None:
    replicates = np.random.default_rng(3).normal(size=(99, 2))
    replicates[::7, 0] = np.nan
    low, high = cut(np.zeros(2), replicates, np.array([[0.1, 0.03], [0.8, 0.99]]))
    for column, (p, q) in enumerate(((0.1, 0.8), (0.03, 0.99))):
        assert low[column] == pytest.approx(np.nanquantile(replicates[:, column], p))
        assert high[column] == pytest.approx(np.nanquantile(replicates[:, column], q))


def test_resamples_that_are_never_defined_give_no_ends() -> None:
    low, high = cut(np.ones(1), np.full((9, 1), np.nan), np.array([[0.1], [0.9]]))
    assert np.isnan(low).all()
    assert np.isnan(high).all()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=12).map(
        lambda pairs: [(min(k, n), n) for k, n in pairs]
    )
)
def test_the_interval_of_a_share_holds_it_and_stays_a_share(pairs: list[tuple[int, int]]) -> None:
    k, n = np.array(pairs, dtype=float).T
    e = ratio_of_sums(k, n, np.arange(len(k)), int(n.sum()))
    assert e.value == pytest.approx(k.sum() / n.sum())
    if len(pairs) == 1:
        assert (e.low, e.high) == (None, None)
    else:
        assert 0.0 <= e.low <= e.value <= e.high <= 1.0


def test_two_clusters_span_their_resamples() -> None:
    e = ratio_of_sums(np.array([1.0, 3.0]), np.ones(2), np.array([0, 1]), 2)
    assert (e.value, e.low, e.high) == (2.0, 1.0, 3.0)


def test_the_interval_of_a_biased_statistic_still_holds_it() -> None:
    """A squared mean near 0 is below nearly all of its resamples."""
    x = np.random.default_rng(4).normal(size=60)
    x -= x.mean() - 1e-9
    value, low, high = bootstrap(np.column_stack([x, np.ones(60)]), lambda t: average(t) ** 2)
    assert 0.0 <= low[0] <= value[0] < high[0]


def test_leaving_out_is_a_loop_and_groups_of_many_clusters_are_left_out_whole(monkeypatch) -> None:
    sums = np.random.default_rng(5).normal(size=(7, 2))
    slow = [np.delete(sums, i, axis=0).sum(axis=0) for i in range(7)]
    np.testing.assert_allclose(without_each(sums), slow, atol=1e-12)
    monkeypatch.setattr(interval_tails, "LEFT_OUT", 3)
    grouped = [np.delete(sums, np.arange(i, 7, 3), axis=0).sum(axis=0) for i in range(3)]
    np.testing.assert_allclose(without_each(sums), grouped, atol=1e-12)


def test_a_rare_share_of_few_prompts_is_missed_on_both_sides_alike() -> None:
    """Expanded percentiles alone lie above the truth in 4 of these runs and below it in 32."""
    rng = np.random.default_rng(6)
    chances = rng.choice([0.0, 0.4], p=[0.8, 0.2], size=(400, 40))
    dead = rng.binomial(3, chances)
    above = below = 0
    for k in dead:
        e = ratio_of_sums(k.astype(float), np.full(40, 3.0), np.arange(40), 120)
        above, below = above + (e.low > 0.08), below + (e.high < 0.08)
    assert above <= 20
    assert below <= 20
    assert above + below <= 28
