"""The weight law: slopes against a general fit with dummies, decisions against their stated error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from synthetic import rollouts, write

from audit.analyses.length_law import MARGIN, Weights, is_biased, law_of, weight_slope, weights_of
from audit.analyses.length_rows import length_rows
from audit.analyses.length_slope import mean_slope
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named
from audit.objectives.objective import Filter
from audit.stats import Estimate


def data_of(tmp_path, rows):
    return length_rows(RunRows.read(write(tmp_path / "run", rows, sampling={"max_tokens": 20})))


def by_likelihood(x: np.ndarray, y: np.ndarray, strata: np.ndarray) -> float:
    """Poisson pseudo-likelihood with a dummy per stratum, by a general optimiser."""
    _, code = np.unique(strata, return_inverse=True)
    design = np.column_stack([x, np.eye(code.max() + 1)[code]])

    def loss(b: np.ndarray) -> tuple[float, np.ndarray]:
        mean = np.exp(design @ b)
        return float((mean - y * (design @ b)).sum()), design.T @ (mean - y)

    start = np.append(0.0, np.full(design.shape[1] - 1, np.log(y.mean())))
    return float(scipy.optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-8}).x[0])


def test_the_slope_is_that_of_a_poisson_fit_with_a_dummy_per_group_and_sign(tmp_path) -> None:
    data = data_of(tmp_path, rollouts(steps=5, epochs=1))
    rng = np.random.default_rng(1)
    n = len(data.length)
    advantage = rng.choice([-2.0, -0.5, 0.5, 3.0], n)
    # A clip removes some, more often short ones.
    weight = advantage * data.length**-0.7 * np.exp(rng.normal(0, 0.3, n))
    weight[rng.random(n) < 1.0 / (1.0 + data.length)] = 0.0
    slope = weight_slope(data, Weights(weight, advantage, np.ones(n, dtype=bool)))
    x, y = np.log(data.length), np.abs(weight / advantage)
    for e, use in (
        (slope.all, advantage != 0),
        (slope.positive, advantage > 0),
        (slope.negative, advantage < 0),
    ):
        strata = 2 * data.group + (advantage > 0)
        # A stratum without any weight says nothing of the slope, and has no level.
        some = use & (np.bincount(strata, weights=y)[strata] > 0)
        assert e.value == pytest.approx(by_likelihood(x[some], y[some], strata[some]), abs=1e-5)
        assert e.low < e.value < e.high
        assert e.n == use.sum()
    assert slope.within == "group and sign"
    assert slope.later.n == 0


def test_what_takes_no_loss_by_design_is_no_weight_of_0(tmp_path) -> None:
    rows = rollouts(steps=5, epochs=1, longest=6)
    data = data_of(tmp_path, rows)
    masked = named("rloo").replace(filter=Filter(mask_truncated=True))
    slope = weight_slope(data, weights_of(data, masked)).all
    assert (slope.value, slope.low, slope.high) == (0.0, 0.0, 0.0)
    assert slope.n < weight_slope(data, weights_of(data, named("rloo"))).all.n


def test_a_clip_that_removes_short_responses_is_a_law_of_length(tmp_path) -> None:
    data = data_of(tmp_path, rollouts(steps=12, epochs=1))
    weights = weights_of(data, named("rloo"))
    clipped = np.where(data.length < 8, 0.0, weights.per_token)
    slope = weight_slope(data, weights._replace(per_token=clipped)).all
    assert law_of(slope) == "grows"


def test_only_tokens_that_take_loss_count_as_length(tmp_path) -> None:
    rows = rollouts(steps=4, epochs=1)
    for i, row in enumerate(rows):
        row["loss_mask"] = [i % 3 == 0 or t < 2 for t in range(row["length"])]
    data = data_of(tmp_path, rows)
    slope = weight_slope(data, weights_of(data, named("grpo"))).all
    assert (slope.value, slope.low, slope.high) == pytest.approx((-1.0, -1.0, -1.0), abs=1e-9)


def test_a_divisor_that_differs_between_steps_is_no_law_of_length(tmp_path) -> None:
    rows = rollouts(steps=6, epochs=1, groups=2)
    for row in rows:
        # Steps of long responses have a large token count, so weights there are small.
        keep = 3 * row["step"]
        for name in ("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref"):
            row[name] = (row[name] * 20)[:keep] + row[name]
        row["length"] = len(row["token_ids"])
    data = data_of(tmp_path, rows)
    weights = weights_of(data, named("dapo"))
    used = weights.advantage != 0
    x = np.log(data.length[used])
    y = np.log(np.abs(weights.per_token[used] / weights.advantage[used]))
    assert np.polyfit(x, y, 1)[0] < -0.4
    slope = weight_slope(data, weights).all
    assert (slope.value, slope.low, slope.high) == (0.0, 0.0, 0.0)


def test_pairs_of_one_right_and_one_wrong_are_compared_within_the_pair(tmp_path) -> None:
    rows = rollouts(steps=6, epochs=1, size=2)
    for i, row in enumerate(rows):
        row["reward"] = float(i % 2)
    data = data_of(tmp_path, rows)
    slope = weight_slope(data, weights_of(data, named("grpo")))
    assert slope.within == "group"
    assert slope.all.value == pytest.approx(-1.0, abs=1e-9)


def test_groups_of_one_are_compared_within_the_optimiser_step(tmp_path) -> None:
    rows = [row | {"group_id": str(i)} for i, row in enumerate(rollouts(steps=6, epochs=1))]
    data = data_of(tmp_path, rows)
    slope = weight_slope(data, weights_of(data, named("reinforce")))
    assert slope.within == "optimiser step"
    assert slope.all.value == 0.0


def test_an_exact_law_needs_no_second_prompt(tmp_path) -> None:
    data = data_of(tmp_path, rollouts(steps=2, prompts=1, epochs=1))
    slope = weight_slope(data, weights_of(data, named("grpo"))).all
    assert law_of(slope) == "1/length"
    n = len(data.length)
    noisy = Weights(np.random.default_rng(0).normal(size=n), np.ones(n), np.ones(n, dtype=bool))
    inexact = weight_slope(data, noisy).all
    assert inexact.value is not None
    assert inexact.low is None
    assert law_of(inexact) == "unknown"


bounds = st.floats(-3, 3)


@given(bounds, bounds)
def test_a_decision_needs_the_whole_interval(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    law = law_of(Estimate((low + high) / 2, low, high, 10))
    inside = [abs(low) <= MARGIN, abs(high) <= MARGIN]
    if is_biased(law):
        assert not any(inside)
        assert low * high > 0
    elif is_biased(law) is False:
        assert all(inside)
    else:
        assert low < MARGIN < high or low < -MARGIN < high or any(inside)
    if law == "1/length":
        assert max(abs(low + 1), abs(high + 1)) <= MARGIN * (1 + 1e-9)


def test_no_interval_is_no_decision() -> None:
    assert is_biased(law_of(Estimate(-1.0, None, None, 5))) is None


@pytest.mark.parametrize("truth", [MARGIN, -MARGIN])
def test_error_rates_at_the_margin_are_those_stated(truth: float) -> None:
    """Either decision is wrong in about 2.5 % of runs where the slope lies on the margin, and no more."""
    rng = np.random.default_rng(5)
    runs, prompts, per = 200, 30, 8
    cluster = np.repeat(np.arange(prompts), per)
    told = []
    for _ in range(runs):
        x = rng.normal(0, 0.6, prompts * per)
        size = np.repeat(rng.uniform(0.1, 0.5, prompts), per)
        noise, noise_square = size * rng.normal(0, 1, prompts * per), size**2 / 2
        told.append(
            is_biased(law_of(mean_slope(x, np.exp(truth * x + noise - noise_square), cluster, cluster)))
        )
    allowed = 0.025 * runs + 3 * math.sqrt(0.025 * 0.975 * runs)
    assert told.count(True) <= allowed
    assert told.count(False) <= allowed
    assert told.count(None) > 0.8 * runs
