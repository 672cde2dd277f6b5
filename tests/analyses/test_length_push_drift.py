"""Push against drift: curves by plain loops, agreement by the intervals that decide it."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import rollouts, write
from test_length_drift import lengthened

from audit.analyses.length_bins import step_bins
from audit.analyses.length_drift import length_drift
from audit.analyses.length_law import weights_of
from audit.analyses.length_pressure import length_pressure, mean_size
from audit.analyses.length_push_drift import _correlation, agreement, compare, push_and_drift
from audit.analyses.length_rows import length_rows
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named
from audit.stats import Estimate


def shrinking(tmp_path, sign: int):
    """A run under GRPO whose lengths fall (1) or rise (-1) steadily."""
    most = 30
    rows = rollouts(steps=most, epochs=1, longest=6)
    return length_rows(
        RunRows.read(
            write(tmp_path / "run", lengthened(rows, lambda r: most - r["step"] if sign > 0 else r["step"]))
        )
    )


def test_the_push_of_a_bin_is_the_pooled_covariance_of_its_groups(tmp_path) -> None:
    data = length_rows(RunRows.read(write(tmp_path / "run", rollouts(steps=30, epochs=1))))
    weight = weights_of(data, named("grpo")).per_token
    chosen = data.side("correct")
    found = compare(data, weight, chosen, "unclear")
    bins = step_bins(data.step, chosen)
    pushes = []
    for b in range(len(bins.step)):
        top, bottom = 0.0, 0
        for group in np.unique(data.group[(bins.of_row == b)]):
            at = chosen & (data.group == group) & (bins.of_row == b)
            if at.sum() > 1:
                top += np.cov(weight[at], data.length[at])[0, 1] * (at.sum() - 1)
                bottom += at.sum() - 1
        pushes.append(top / bottom / mean_size(data, weight) if bottom else np.nan)
    np.testing.assert_allclose(np.array(found.push, dtype=float), pushes, rtol=1e-9)
    steps = [float(len(np.unique(data.step[bins.of_row == b]))) for b in range(len(bins.step))]
    reached = [
        sum(p * n for p, n in zip(pushes[:b], steps, strict=False)) + pushes[b] * steps[b] / 2
        for b in range(len(pushes))
    ]
    np.testing.assert_allclose(found.cumulative, np.array(reached) - reached[0], rtol=1e-9, atol=1e-12)
    ends = np.array(found.cumulative), np.array(found.observed)
    assert found.correlation.value == pytest.approx(np.corrcoef(*ends)[0, 1])
    assert found.scale.value == pytest.approx(ends[0] @ ends[1] / (ends[0] @ ends[0]))
    steps_of = np.array(found.push[:-1], dtype=float), np.diff(found.observed)
    assert found.increments.value == pytest.approx(np.corrcoef(*steps_of)[0, 1])


@pytest.mark.parametrize(
    ("sign", "correct", "wrong"), [(1, "same direction", "opposite"), (-1, "opposite", "same direction")]
)
def test_lengths_that_fall_agree_with_the_push_on_correct_answers_alone(
    tmp_path, sign, correct, wrong
) -> None:
    data = shrinking(tmp_path, sign)
    weight = weights_of(data, named("grpo")).per_token
    found = push_and_drift(data, weight, length_pressure(data, weight), length_drift(data))
    assert (found.correct.agreement, found.wrong.agreement) == (correct, wrong)
    assert found.correct.scale.value * sign > 0 > found.wrong.scale.value * sign
    assert found.correct.correlation.value * sign > 0.7


def test_drift_without_a_push_is_said(tmp_path) -> None:
    data = shrinking(tmp_path, 1)
    weight = weights_of(data, named("rloo")).per_token
    found = push_and_drift(data, weight, length_pressure(data, weight), length_drift(data))
    assert found.correct.agreement == "drift without push"
    assert found.correct.correlation.value is None


def test_agreement_goes_by_intervals() -> None:
    up, down = Estimate(1.0, 0.5, 1.5, 9), Estimate(-1.0, -1.5, -0.5, 9)
    flat, none, lost = Estimate(0.1, -1.0, 1.2, 9), Estimate(0.0, 0.0, 0.0, 9), Estimate(1.0, None, None, 1)
    table = {
        (up, up): "same direction",
        (down, down): "same direction",
        (up, down): "opposite",
        (up, flat): "push without drift",
        (none, up): "drift without push",
        (flat, up): "unclear",
        (flat, flat): "unclear",
        (lost, up): "unclear",
        (up, lost): "unclear",
    }
    assert {pair: agreement(*pair) for pair in table} == table


def test_correlation_leaves_out_what_is_unknown() -> None:
    a = np.array([[1.0, 2.0, np.nan, 4.0, 7.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    b = np.array([[2.0, 1.0, 5.0, 3.0, 9.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    known = [0, 1, 3, 4]
    found = _correlation(a, b)
    assert found[0] == pytest.approx(np.corrcoef(a[0][known], b[0][known])[0, 1])
    assert np.isnan(found[1])
