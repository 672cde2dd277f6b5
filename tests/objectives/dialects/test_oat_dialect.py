"""The oat dialect: every cell of its row in the tables of methods, and weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell, clipped
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "0.2.3"
GRPO, PPO = {"critic_type": "grpo"}, {"critic_type": "ppo"}


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 drgrpo mean", "baseline.kind", "group_mean"),
        cell("2.1 drgrpo no std", "scale.kind", "none"),
        cell("2.1 grpo", "scale.kind", "group_std", GRPO),
        cell("2.1 ddof 1", "scale.ddof", 1, GRPO),
        cell("2.1 +1e-8", "scale.epsilon", 1e-8, GRPO),
        cell("2.1 ppo", "baseline.kind", "gae", PPO),
        cell("2.1 KL in reward option", "kl.reward.stage", "before_baseline", {"kl_penalty_coef": 0.1}),
        cell("2.1 KL in reward option", "kl.reward.form", "token", PPO | {"kl_penalty_coef": 0.1}),
        cell("2.2 sum/generate_max_length", "aggregation.kind", "seq-mean-token-sum-norm"),
        cell("2.2 sum/generate_max_length", "aggregation.constant", 512.0),
        cell("2.2 grpo row mean", "aggregation.kind", "seq-mean-token-mean", GRPO),
        cell("2.2 micro-batch", "aggregation.scope", "micro_batch"),
        cell("2.2 counted", "aggregation.rows", "all"),
        cell("2.2 KL same", "kl.loss.aggregation", None),
        cell("2.3 old", "ratio.denominator", "old"),
        cell("2.3 0.2", "clip.epsilon_low", 0.2),
        cell("2.3 0.2", "clip.epsilon_high", 0.2),
        cell("2.3 reinforce_update", "ratio.denominator", "theta", {"reinforce_update": True}),
        cell("2.3 no log-ratio clamp", "ratio.clamp", None),
        cell("2.4 beta 0 in R1-zero", "kl.loss", None, {"beta": 0}),
        cell("2.4 beta 0.1 in oat", "kl.loss.coefficient", 0.1),
        cell("2.4 beta k3", "kl.loss.estimator", "k3"),
        cell("2.4 tis_c 2.0", "ratio.corrections.0.high", 2.0),
        cell("2.4 tis_c off", "ratio.corrections", (), {"tis_c": None}),
        cell("2.4 no filter", "filter.dynamic_sampling", False),
        cell("2.4 ignore_no_eos", "filter.mask_truncated", True, {"ignore_no_eos": True}),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    check_cell("oat", version or V, config, field, value)


def test_the_default_divides_by_a_constant_and_truncates_the_mismatch() -> None:
    objective = declared("oat", V, generate_max_length=100, beta=0.05)
    rows = batch(drift=0.6, micro=True)
    expected = []
    for row in rows:
        advantage = row.reward - statistics.fmean([r.reward for r in rows if r.group == row.group])
        made = []
        for theta, old, ref, sampler in zip(row.theta, row.old, row.ref, row.sampler, strict=True):
            policy = min(math.exp(old - sampler), 2.0) * advantage
            policy *= clipped(math.exp(theta - old), advantage, 0.2, 0.2)
            made.append((policy - 0.05 * (1 - math.exp(ref - theta))) / (len(rows) * 100))
        expected.append(made)
    assert_weights(objective, rows, expected)


def test_the_kl_penalty_is_centred_with_the_reward() -> None:
    objective = declared(
        "oat", V, critic_type="grpo", kl_penalty_coef=0.1, beta=0, reward_scale=2.0, tis_c=None
    )
    rows = batch()
    paid = [
        2.0 * row.reward - 0.1 * math.fsum(o - f for o, f in zip(row.old, row.ref, strict=True))
        for row in rows
    ]
    rows = [type(row)(**{**vars(row), "micro": 0}) for row in rows]
    expected = []
    for row, value in zip(rows, paid, strict=True):
        group = [x for x, r in zip(paid, rows, strict=True) if r.group == row.group]
        advantage = (value - statistics.fmean(group)) / (statistics.stdev(group) + 1e-8)
        expected.append(
            [
                advantage * clipped(math.exp(t - o), advantage, 0.2, 0.2) / (len(rows) * len(row.mask))
                for t, o in zip(row.theta, row.old, strict=True)
            ]
        )
    assert_weights(objective, rows, expected)


def test_what_an_objective_cannot_express_is_refused_by_name() -> None:
    with pytest.raises(BadObjective, match="whiten_rewards=True"):
        from_framework("oat", V, PPO | {"whiten_rewards": True})
    with pytest.raises(BadObjective, match=r"no critic_type 'dr_grpo'\. Did you mean 'drgrpo'"):
        from_framework("oat", V, {"critic_type": "dr_grpo"})
