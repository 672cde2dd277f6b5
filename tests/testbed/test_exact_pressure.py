"""Length pressure: the covariance of weight and length is how fast the natural gradient moves the length."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from testbed_small import SMALL, draw_of, random_policy, spelled_out

from audit.objectives.batch import Tokens
from audit.objectives.catalogue import named
from audit.objectives.objective import KL, Objective
from audit.objectives.weights import effective_weights
from audit.testbed import exact
from audit.testbed.language import Language
from audit.testbed.sampling import responses_of
from audit.testbed.trainable import prepared

GROUP = 2
NAMES = ("grpo", "dr_grpo", "dr_grpo_longest", "rloo", "maxrl", "opo", "gspo")


def weight_of_each(
    objective: Objective, language: Language, prompt: int, chance: torch.Tensor
) -> torch.Tensor:
    """E[weight per token | response] over the other response of its group, shape (R,)."""
    objective = prepared(objective.replace(kl=KL()), language, GROUP)
    every = spelled_out(language)
    pairs = list(itertools.product(range(len(every)), repeat=GROUP))
    rows = [(g, place, every[y]) for g, pair in enumerate(pairs) for place, y in enumerate(pair)]
    draw = draw_of(language, prompt, rows)
    same = torch.full((draw.layout.num_values,), -1.0, dtype=torch.float64)
    tokens = Tokens(draw.layout, torch.ones_like(same, dtype=torch.bool), same, same, same, same)
    weight = effective_weights(tokens, responses_of(language, draw, objective), objective).weight
    per_row = draw.layout.sum(weight) / draw.length
    assert torch.equal(weight, draw.layout.spread(weight[draw.layout.offsets[:-1]]))  # constant in a response
    own = torch.tensor([pair[place] for pair in pairs for place in range(GROUP)])
    other = torch.tensor([pair[1 - place] for pair in pairs for place in range(GROUP)])
    total = torch.zeros(len(every), dtype=torch.float64)
    return total.index_add(0, own, per_row * chance[other]) / GROUP


def covariance(chance: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> float:
    share = chance / chance.sum()
    return float(share @ (x * y) - (share @ x) * (share @ y))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**31 - 1))
def test_covariance_is_the_derivative_of_the_length(name: str, seed: int) -> None:
    policy = random_policy(SMALL, seed)[0]
    chance = exact.response_probability(SMALL, policy)
    weight = torch.stack([weight_of_each(named(name), SMALL, p, chance[p]) for p in range(SMALL.prompts)])
    direction = exact.natural_direction(SMALL, policy, weight)
    exact_change = exact.length_change(SMALL, policy, direction)
    step = 1e-5
    ahead, behind = (
        exact.expected_length(SMALL, (policy + sign * step * direction).log_softmax(-1)) for sign in (1, -1)
    )
    length = SMALL.response_length.double()
    for prompt in range(SMALL.prompts):
        predicted = covariance(chance[prompt], weight[prompt], length)
        assert float(exact_change[prompt]) == pytest.approx(predicted, abs=1e-12)
        assert float((ahead - behind)[prompt] / (2 * step)) == pytest.approx(predicted, abs=1e-6)


def test_one_over_length_shrinks_correct_answers_and_stretches_wrong_ones() -> None:
    policy = SMALL.reference
    chance = exact.response_probability(SMALL, policy)
    length = SMALL.response_length.double()
    for prompt in range(SMALL.prompts):
        right = SMALL.reward[prompt] == 1.0
        pressures = {
            name: [covariance(chance[prompt, side], weight[side], length[side]) for side in (right, ~right)]
            for name in ("grpo", "dr_grpo", "rloo")
            for weight in [weight_of_each(named(name), SMALL, prompt, chance[prompt])]
        }
        shrink, stretch = pressures["grpo"]
        assert shrink < -1e-3
        assert stretch > 1e-3
        assert pressures["dr_grpo"] == pytest.approx([0.0, 0.0], abs=1e-12)
        assert pressures["rloo"] == pytest.approx([0.0, 0.0], abs=1e-12)
        # A (1 - E[l] E[1/l]) among correct responses, with A = P(the other is wrong) / B for groups of two.
        share = chance[prompt, right] / chance[prompt, right].sum()
        spread = float((share @ length[right]) * (share @ (1.0 / length[right])))
        advantage = float(chance[prompt, ~right].sum()) / GROUP
        assert shrink == pytest.approx(advantage * (1.0 - spread), rel=1e-12)
        assert math.isfinite(spread)
        assert spread > 1.0
