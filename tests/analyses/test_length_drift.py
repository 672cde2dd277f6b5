"""Drift and trend against regressions with dummies, scipy, and a change of prompts made by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from synthetic import rollouts, write

from audit.analyses.length_bins import BINS, clusters, step_bins
from audit.analyses.length_drift import length_drift, prompt_mix
from audit.analyses.length_path import path_of, path_sums
from audit.analyses.length_rows import length_rows
from audit.analyses.length_trend import length_trends, trend_among
from audit.facts.rows import RunRows


def lengthened(rows, extra):
    """The rows with ``extra(row)`` more tokens each."""
    for row in rows:
        more = extra(row)
        row["length"] += more
        row["token_ids"] = row["token_ids"] + [0] * more
        row["loss_mask"] = row["loss_mask"] + [True] * more
        for name in ("logp_old", "logp_ref", "logp_theta"):
            row[name] = row[name] + [-1.0] * more
    return rows


def data_of(tmp_path, rows, **manifest):
    return length_rows(RunRows.read(write(tmp_path / "run", rows, **manifest)))


def dummies(code: np.ndarray) -> np.ndarray:
    _, code = np.unique(code, return_inverse=True)
    return np.eye(code.max() + 1)[code]


def test_drift_is_the_slope_of_a_regression_with_a_dummy_per_prompt(tmp_path) -> None:
    rows = lengthened(rollouts(steps=40, epochs=1, longest=5), lambda r: 2 * r["step"] // 10)
    data = data_of(tmp_path, rows)
    drift = length_drift(data)
    for side in ("correct", "wrong", "all"):
        use, e = data.side(side), getattr(drift, side)
        design = np.column_stack([data.step[use] / 39, dummies(data.cluster[use])])
        slope = np.linalg.lstsq(design, data.length[use], rcond=None)[0][0]
        assert e.value == pytest.approx(slope, rel=1e-9)
        assert e.low < 0.2 * 39 < e.high


def test_a_change_of_prompts_is_no_drift(tmp_path) -> None:
    rows = [
        r
        for r in rollouts(steps=40, epochs=1, prompts=12)
        if (int(r["prompt_id"][1:]) < 6) == (r["step"] < 30)
    ]
    rows = lengthened(rows, lambda r: 30 if int(r["prompt_id"][1:]) >= 6 else 0)
    data = data_of(tmp_path, rows)
    mix = prompt_mix(data)
    assert mix.raw.low > 10
    assert mix.held.low < 0 < mix.held.high
    assert mix.mix.low > 10
    assert mix.mix.value == pytest.approx(mix.raw.value - mix.held.value)
    step = data.step / np.ptp(data.step)
    assert mix.raw.value == pytest.approx(scipy.stats.linregress(step, data.length).slope)
    assert mix.held.value == pytest.approx(length_drift(data).all.value)
    assert mix.recurring == 11
    assert mix.prompts == 12


def test_prompts_that_never_recur_say_nothing_about_drift(tmp_path) -> None:
    rows = [r | {"prompt_id": f"{r['step']}-{r['prompt_id']}"} for r in rollouts(steps=10, epochs=1)]
    data = data_of(tmp_path, rows)
    assert prompt_mix(data).recurring == 0
    assert prompt_mix(data).held.value is None
    assert prompt_mix(data).raw.value is not None
    assert length_drift(data).all.value is None
    trend = length_trends(data).all
    assert (trend.theil_sen.value, trend.p) == (None, None)


def test_the_path_is_that_of_a_regression_with_dummies_for_prompts_and_bins(tmp_path) -> None:
    data = data_of(tmp_path, rollouts(steps=30, epochs=1))
    bins = step_bins(data.step, data.use)
    times = len(bins.step)
    assert times == BINS
    path = path_of(path_sums(data, data.use, bins).sum(axis=0), times)
    design = np.column_stack([dummies(bins.of_row)[:, 1:], dummies(data.cluster)])
    solved = np.linalg.lstsq(design, data.length, rcond=None)[0][: times - 1]
    np.testing.assert_allclose(path, [0.0, *solved], atol=1e-9)


def test_theil_sen_and_mann_kendall_are_scipy_s_on_the_path(tmp_path) -> None:
    rows = lengthened(rollouts(steps=25, epochs=1), lambda r: r["step"] // 3)
    data = data_of(tmp_path, rows)
    trend = length_trends(data).all
    bins = step_bins(data.step, data.use)
    path = path_of(path_sums(data, data.use, bins).sum(axis=0), len(bins.step))
    slope = scipy.stats.theilslopes(path, bins.step / 24).slope
    tested = scipy.stats.kendalltau(bins.step, path)
    assert trend.theil_sen.value == pytest.approx(slope)
    assert trend.theil_sen.low < slope < trend.theil_sen.high
    assert trend.tau.value == pytest.approx(tested.statistic)
    assert trend.p == pytest.approx(tested.pvalue)
    assert trend.theil_sen.low > 0


def test_one_odd_step_does_not_make_a_trend(tmp_path) -> None:
    rows = lengthened(rollouts(steps=20, epochs=1, longest=4), lambda r: 60 if r["step"] == 20 else 0)
    data = data_of(tmp_path, rows)
    assert length_drift(data).all.low > 2
    theil_sen = trend_among(data, data.use).theil_sen
    assert theil_sen.low < 0.5
    assert abs(theil_sen.value) < 1.5


def test_bins_are_whole_steps_of_about_as_many_rows() -> None:
    step = np.repeat(np.arange(100.0), 7)
    step[5] = np.nan
    bins = step_bins(step, np.ones(700, dtype=bool))
    assert bins.of_row[5] == -1
    assert len(bins.step) == BINS
    assert bins.steps.tolist() == [5.0] * BINS
    known = bins.of_row >= 0
    for value in np.unique(step[known]):
        assert len(np.unique(bins.of_row[known & (step == value)])) == 1
    assert np.all(np.diff(bins.step) > 0)


def test_more_prompts_than_clusters_are_pooled() -> None:
    code, count = clusters(np.arange(2500))
    assert count == 1000
    assert np.bincount(code).tolist() == [3] * 500 + [2] * 500


def test_bins_that_no_prompt_links_have_no_path(tmp_path) -> None:
    rows = [r for r in rollouts(steps=10, epochs=1) if (int(r["prompt_id"][1:]) < 6) == (r["step"] < 6)]
    data = data_of(tmp_path, rows)
    bins = step_bins(data.step, data.use)
    sums = path_sums(data, data.use, bins).sum(axis=0)
    assert np.isnan(path_of(sums, len(bins.step))[1:]).all()
    assert length_trends(data).all.theil_sen.value is None
    linked = rows + [
        r | {"prompt_id": "link"} for r in rollouts(steps=10, epochs=1) if r["sample_index"] == 0
    ]
    data = data_of(tmp_path / "linked", linked)
    assert length_trends(data).all.theil_sen.value is not None
