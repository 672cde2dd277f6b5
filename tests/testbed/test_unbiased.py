"""Expected updates over every possible group, against the exact gradient."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from testbed_small import SMALL, draw_of, log_probability, random_policy, spelled_out

from audit.objectives.batch import Tokens
from audit.objectives.catalogue import named
from audit.objectives.objective import KL, Aggregation, Baseline, Objective, RewardKL
from audit.objectives.weights import effective_weights
from audit.testbed import exact
from audit.testbed.sampling import responses_of
from audit.testbed.trainable import prepared

PROMPT = 1
SUM = Aggregation(kind="seq-mean-token-sum")
BETA = 0.4


def expected_update(objective: Objective, table: torch.Tensor, size: int) -> torch.Tensor:
    """E[sum of w d log pi / d logits] over all groups of ``size`` responses, (S, V); ``table``: (S, V)."""
    every = spelled_out(SMALL)
    chance = [math.exp(float(log_probability(SMALL, table, y))) for y in every]
    groups = list(itertools.product(range(len(every)), repeat=size))
    rows = [(g, place, every[y]) for g, group in enumerate(groups) for place, y in enumerate(group)]
    draw = draw_of(SMALL, PROMPT, rows)
    prefix = draw.row - PROMPT * SMALL.prefixes
    log = table[prefix, draw.token]
    q, v = values_of(objective, table)
    tokens = Tokens(
        layout=draw.layout,
        mask=torch.ones(len(log), dtype=torch.bool),
        logp_theta=log,
        logp_old=log,
        logp_sampler=log,
        logp_ref=SMALL.reference[PROMPT, prefix, draw.token],
        value=v[prefix],
        token_advantage=(q - v[:, None])[prefix, draw.token] if objective.baseline.kind == "logged" else None,
    )
    weight = effective_weights(tokens, responses_of(SMALL, draw, objective), objective).weight
    of_group = torch.tensor([math.prod(chance[y] for y in group) for group in groups], dtype=torch.float64)
    weight = weight * of_group[draw.layout.spread(draw.run)]
    update = torch.zeros_like(table).index_put((prefix, draw.token), weight, accumulate=True)
    at_prefix = torch.zeros(SMALL.prefixes, dtype=torch.float64).index_add(0, prefix, weight)
    return update - at_prefix[:, None] * table.exp()


def values_of(objective: Objective, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    beta = objective.kl.reward.coefficient if objective.kl.reward else 0.0
    both = table.expand(SMALL.prompts, -1, -1)
    q, v = exact.values(SMALL, both, SMALL.reward, beta=beta, reference=SMALL.reference)
    return q[PROMPT], v[PROMPT]


def gradient(table: torch.Tensor, beta: float = 0.0) -> torch.Tensor:
    both = table.expand(SMALL.prompts, -1, -1)
    return exact.policy_gradient(SMALL, both, SMALL.reward, beta=beta, reference=SMALL.reference)[PROMPT]


@pytest.fixture(scope="module")
def table() -> torch.Tensor:
    return random_policy(SMALL, 7)[0, PROMPT]


@pytest.mark.parametrize(
    ("objective", "size", "factor"),
    [
        (named("reinforce"), 1, 1.0),
        (named("rloo"), 2, 1.0),
        (named("rloo"), 3, 1.0),
        (named("dr_grpo"), 2, 1 / 2 / 3),
        (named("dr_grpo"), 3, 2 / 3 / 3),
        (named("gpg").replace(scale=Objective().scale, aggregation=SUM), 2, 1 / 2),
        (named("kimi"), 3, 2 / 3),
        (named("ppo").replace(aggregation=SUM), 1, 1.0),
        (named("ppo_gae").replace(aggregation=SUM, kl=KL()), 1, 1.0),
        (named("vtrace"), 1, 1.0),
        (named("luspo").replace(scale=Objective().scale), 2, 1 / 2),
    ],
    ids=lambda value: value.name if isinstance(value, Objective) else "",
)
def test_unbiased_objectives(objective: Objective, size: int, factor: float, table: torch.Tensor) -> None:
    objective = prepared(objective, SMALL, size)
    torch.testing.assert_close(
        expected_update(objective, table, size), factor * gradient(table), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize(
    "objective",
    [
        named("rloo").replace(kl=KL(reward=RewardKL(coefficient=BETA))),
        Objective(
            name="to_go",
            aggregation=SUM,
            kl=KL(reward=RewardKL(coefficient=BETA, stage="after_scale", form="to_go")),
        ),
        named("ppo_gae").replace(
            aggregation=SUM,
            baseline=Baseline(kind="gae", lam=0.7),
            kl=KL(reward=RewardKL(coefficient=BETA, stage="after_scale", form="token")),
        ),
    ],
    ids=lambda objective: objective.name,
)
def test_kl_in_the_reward_gives_the_regularised_gradient(objective: Objective, table: torch.Tensor) -> None:
    size = 2 if objective.name == "rloo" else 1
    found = expected_update(prepared(objective, SMALL, size), table, size)
    torch.testing.assert_close(found, gradient(table, BETA), rtol=0, atol=1e-10)
    assert not torch.allclose(found, gradient(table), atol=1e-3)


@pytest.mark.parametrize("name", ["grpo", "opo", "dapo", "gspo"])
def test_the_others_are_no_multiple_of_the_gradient(name: str, table: torch.Tensor) -> None:
    objective = prepared(named(name).replace(kl=KL()), SMALL, 2)
    found, exact_ = expected_update(objective, table, 2).flatten(), gradient(table).flatten()
    cosine = float(found @ exact_ / (found.norm() * exact_.norm()))
    assert 0.5 < cosine < 0.9999
