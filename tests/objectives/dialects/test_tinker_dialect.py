"""The tinker-cookbook dialect: every cell of its row in the tables of methods; weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "0.6.1"
KL = {"kl_penalty_coef": 0.1}


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 mean", "baseline.kind", "group_mean"),
        cell("2.1 no std", "scale.kind", "none"),
        cell("2.1 group dropped", "filter.dynamic_sampling", True, {"remove_constant_reward_groups": True}),
        cell("2.1 group dropped: off in 0.6.1", "filter.dynamic_sampling", False),
        cell("2.1 coef (mean KL - KL)", "kl.reward.form", "centred", KL),
        cell("2.1 coef (mean KL - KL)", "kl.reward.estimator", "k1", KL),
        cell("2.1 sampler against base", "kl.reward.policy", "sampler", KL),
        cell("2.2 sum", "aggregation.kind", "token-sum"),
        cell("2.3 sampler", "ratio.denominator", "sampler"),
        cell("2.3 no clip", "clip.kind", "none"),
        cell("2.3 ppo", "clip.epsilon_low", 0.2, {"loss_fn": "ppo"}),
        cell(
            "2.3 ppo: own thresholds",
            "clip.epsilon_high",
            0.3,
            {"loss_fn": "ppo", "loss_fn_config": {"clip_high_threshold": 1.3}},
        ),
        cell("2.3 cispo", "clip.kind", "cispo", {"loss_fn": "cispo"}),
        cell("2.3 dro", "clip.tau", 0.05, {"loss_fn": "dro", "loss_fn_config": {"beta": 0.05}}),
        cell("2.4 KL 0", "kl.reward", None),
        cell("2.4 KL 0", "kl.loss", None),
        cell("2.4 the ratio itself", "ratio.corrections", ()),
        cell("2.4 no overlong", "shaping.overlong", None),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    for framework in ("tinker", "tinker-cookbook"):
        check_cell(framework, version or V, config, field, value)


def test_weights_are_not_normalised_and_the_kl_is_centred_over_the_batch() -> None:
    rows = batch()
    k1 = [s - f for row in rows for s, f in zip(row.sampler, row.ref, strict=True)]
    mean_kl = statistics.fmean(k1)
    expected = []
    for row in rows:
        advantage = row.reward - statistics.fmean([r.reward for r in rows if r.group == row.group])
        expected.append(
            [
                (advantage + 0.1 * (mean_kl - (sampler - ref))) * math.exp(theta - sampler)
                for theta, sampler, ref in zip(row.theta, row.sampler, row.ref, strict=True)
            ]
        )
    assert_weights(declared("tinker", V, kl_penalty_coef=0.1), rows, expected)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"async_config": {"max_steps_off_policy": 4}}, "stable_reinforce"),
        ({"loss_fn": "stable_reinforce"}, "loss_fn='stable_reinforce'"),
        ({"loss_fn": "dro"}, "loss_fn='dro'"),
        (KL | {"kl_discount_factor": 0.99}, "kl_discount_factor=0.99"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("tinker", V, config)
    assert named in str(error.value)


def test_an_asynchronous_run_trains_with_its_own_loss() -> None:
    config = {"async_config": {"loss_fn": "ppo"}, "loss_fn": "importance_sampling"}
    assert from_framework("tinker", V, config).objective.clip.kind == "ppo"
