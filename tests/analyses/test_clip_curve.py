"""The share at a width is what the whole analysis says of an objective with that band."""

from __future__ import annotations

import pytest
from synthetic import rollouts, write

from audit.analyses.clip_curve import EPSILONS, RESPONSE_EPSILONS, clip_curve
from audit.analyses.clipping import clipping
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named
from audit.objectives.surrogates import PPOClip


@pytest.mark.parametrize(("name", "epsilons"), [("grpo", EPSILONS), ("gspo", RESPONSE_EPSILONS)])
def test_each_point_is_that_of_the_objective_with_this_band(tmp_path, name, epsilons) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=3)))
    curve = clip_curve(rows, named(name))
    assert [each.epsilon for each in curve.points] == list(epsilons)
    for each in (curve.points[1], curve.points[4]):
        band = PPOClip(epsilon_low=each.epsilon, epsilon_high=each.epsilon)
        assert each.share == clipping(rows, named(name).replace(clip=band)).share
    assert (curve.own_low, curve.own_high) == (named(name).clip.epsilon_low, named(name).clip.epsilon_high)


def test_a_ratio_that_is_1_by_definition_has_no_curve(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=2)))
    with pytest.raises(AuditError, match="1 by definition"):
        clip_curve(rows, named("reinforce"))
