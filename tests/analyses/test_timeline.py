"""The timeline: no parting where there is none, the right step where there is one, mirrored when swapped."""

from __future__ import annotations

import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from synthetic import rollouts, write

from audit.analyses.pair import Pair
from audit.analyses.timeline import Timeline, benjamini_hochberg, timeline
from audit.analyses.timeline_noise import p_values, wander
from audit.facts.rows import RunRows


def course(timeline: Timeline, metric: str):
    return next(course for course in timeline.courses if course.metric == metric)


def pair(tmp_path, rows_a, rows_b) -> Pair:
    runs = (write(tmp_path / "a", rows_a, "grpo"), write(tmp_path / "b", rows_b, "grpo"))
    return Pair(*(RunRows.read(run) for run in runs))


def plain(seed: int, jump: int | None = None, *, steps: int = 40, prompts: int = 24):
    """Rows with rewards alone, whose success rate rises from 0.4 to 0.9 at step ``jump``."""
    rng = random.Random(seed)
    rate = {p: min(max(rng.gauss(0.4, 0.1), 0.05), 0.95) for p in range(prompts)}
    return [
        {
            "step": step,
            "prompt_id": f"p{p}",
            "group_id": f"{step}-{slot}",
            "sample_index": i,
            "reward": float(rng.random() < (0.9 if jump is not None and step >= jump else rate[p])),
        }
        for step in range(steps)
        for slot, p in enumerate(rng.sample(range(prompts), 8))
        for i in range(6)
    ]


def test_a_jump_is_dated_and_only_its_metrics_part(tmp_path) -> None:
    found = timeline(pair(tmp_path, plain(5), plain(6, jump=20)), (None, None))
    reward = course(found, "reward")
    assert reward.state == "parted"
    moment = reward.moments[reward.parted]
    assert moment.first_step == 20
    assert moment.low > 0
    assert moment.moved == pytest.approx(0.5, abs=0.2)
    assert found.parted[0].metric == "reward"
    assert {skip.check for skip in found.unseen} >= {"entropy", "sampler mismatch", "clip-zeroed share"}
    assert any("logp_sampler in both runs" in skip.needs for skip in found.unseen)


def test_the_value_of_a_bin_is_its_mean_over_rows(tmp_path) -> None:
    rows = [plain(1), plain(2)]
    moments = course(timeline(pair(tmp_path, *rows), (None, None)), "reward").moments
    for moment in moments:
        for side, value in zip(rows, (moment.a, moment.b), strict=True):
            there = [r["reward"] for r in side if moment.first_step <= r["step"] <= moment.last_step]
            assert value == pytest.approx(np.mean(there))
        assert moment.n == [192, 192]


def test_swapping_the_runs_mirrors_the_timeline(tmp_path) -> None:
    both = pair(tmp_path, plain(5), plain(6, jump=20))
    one, other = timeline(both, (None, None)), timeline(Pair(both.b, both.a), (None, None))
    for metric in ("reward", "zero-signal share"):
        a, b = course(one, metric), course(other, metric)
        assert (a.state, a.parted) == (b.state, b.parted)
        for x, y in zip(a.moments, b.moments, strict=True):
            assert (x.a, x.b) == (y.b, y.a)
            assert x.moved == -y.moved
            assert x.p == pytest.approx(y.p, nan_ok=True)


def test_a_run_never_parts_from_its_copy(tmp_path) -> None:
    found = timeline(pair(tmp_path, rollouts(), rollouts()), (None, None))
    assert found.parted == []
    for each in found.courses:
        assert all(moment.moved in (0.0, None) for moment in each.moments)


def test_two_runs_of_one_kind_rarely_part() -> None:
    """300 pairs of gaps with prompt noise and a slight wander: at most 6 % may be told apart."""
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(300):
        p = []
        for _ in range(4):
            residual = rng.normal(size=(10, 24)) / np.sqrt(24)
            gap = residual.sum(axis=1) + np.cumsum(np.r_[0.0, rng.normal(scale=0.2, size=9)])
            centred = residual - residual.mean(axis=1, keepdims=True)
            p.append(p_values(gap, centred, wander(gap, centred))[2])
        false += bool((benjamini_hochberg(np.concatenate(p)) <= 0.05).any())
    assert false <= 18


def test_p_values_without_wander_are_uniform() -> None:
    rng = np.random.default_rng(1)
    made = []
    for _ in range(400):
        residual = rng.normal(size=(2, 40)) / 40
        gap = residual.sum(axis=1)
        made.append(p_values(gap, residual - residual.mean(axis=1, keepdims=True), 0.0)[2][1])
    assert scipy.stats.kstest(made, "uniform").pvalue > 0.01


def test_a_drift_and_a_jump_are_no_wander() -> None:
    residual = np.zeros((20, 4))
    assert wander(np.arange(20.0), residual) == 0.0
    assert wander(np.where(np.arange(20) < 9, 0.0, 5.0), residual) == 0.0
    assert wander(np.random.default_rng(0).normal(size=20), residual) > 0.0


@given(st.lists(st.floats(0, 1) | st.none(), max_size=30))
def test_the_correction_is_that_of_scipy(values) -> None:
    p = np.array([np.nan if v is None else v for v in values])
    adjusted = benjamini_hochberg(p)
    known = np.isfinite(p)
    assert np.isnan(adjusted[~known]).all()
    if known.any():
        assert adjusted[known] == pytest.approx(scipy.stats.false_discovery_control(p[known], method="bh"))


def test_the_wander_is_a_moment_estimate_of_a_random_walk() -> None:
    """Where the place of the jump costs little, its mean over many walks is near their variance."""
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(80, 25, 30)) / np.sqrt(30) * 0.1
    walks = np.cumsum(rng.normal(scale=0.5, size=(80, 25)), axis=1)
    found = [wander(walk + r.sum(axis=1), r) for walk, r in zip(walks, noise, strict=True)]
    assert 0.5 * 0.25 < np.mean(found) < 0.25
    alone = [wander(r.sum(axis=1), r) for r in noise]
    assert np.mean(alone) < 0.05 * 0.1**2


def test_a_bin_without_a_gap_is_left_out_of_the_wander() -> None:
    gap = np.random.default_rng(0).normal(size=20)
    gap[[3, 11]] = np.nan
    assert wander(gap, np.zeros((20, 4))) > 0.0
    gap[5:] = np.nan
    assert wander(gap, np.zeros((20, 4))) == 0.0
