"""Causes of the objective: by what is certain of their share."""

from __future__ import annotations

import math

import pytest

from audit.analyses.effect import ObjectiveEffect, PartEffect
from audit.analyses.verdict import _cause_of
from audit.stats import Estimate


def cause_of(share: Estimate, *, distance: float = 0.15):
    part = PartEffect(
        "kl",
        "reward (coefficient 0.05) → none",
        Estimate(distance * share.value, None, None, share.n),
        share,
        Estimate(math.log(0.9), math.log(0.85), math.log(0.95), share.n),
    )
    whole = ObjectiveEffect(["a"], Estimate(distance, 0.1, 0.2, share.n), part.log_scale, [part], [], 100)
    return _cause_of(part, whole, 0.95)


def test_a_share_that_may_be_nothing_is_not_called_nothing() -> None:
    # The KL in the reward of the sample run rloo-seed1 alone turns the weights by 1 - cosine = 0.036.
    cause = cause_of(Estimate(-0.08, -0.18, 0.006, 7680))
    assert cause.share is None
    assert "-8% [-18%, 1%], may be nothing" in cause.summary
    assert "learning rate" not in cause.summary
    assert "keeps the direction" not in cause.summary


@pytest.mark.parametrize(
    ("value", "low", "high"), [(0.0, 0.0, 0.0), (0.004, -0.002, 0.009), (-0.008, -0.015, -0.003)]
)
def test_a_small_share_keeps_the_direction(value: float, low: float, high: float) -> None:
    cause = cause_of(Estimate(value, low, high, 7680))
    assert cause.share == 0.0
    assert "learning rate" in cause.summary


def test_a_certain_share_is_given_with_its_interval() -> None:
    cause = cause_of(Estimate(0.36, 0.25, 0.49, 7680))
    assert (cause.share, cause.low, cause.high) == (0.36, 0.25, 0.49)


def test_objectives_of_one_direction_leave_no_share() -> None:
    cause = cause_of(Estimate(0.5, -3.0, 4.0, 7680), distance=1e-9)
    assert cause.share == 0.0
