"""The OpenRLHF dialect: every cell of its row in the tables of methods, and weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell, clipped, on_policy, weights
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "0.11.2"
EST, KL_LOSS = "algo.advantage.estimator", "algo.kl.use_loss"
IS = "algo.advantage.is_correction_"


def of(**config: Any) -> Any:
    return declared("openrlhf", V, **config)


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 default gae", "baseline.kind", "gae"),
        cell("2.1 gae whitened", "scale.whiten.ddof", 0),
        cell("2.1 max(var, 1e-8)", "scale.whiten.epsilon", 1e-8),
        cell("2.1 max(var, 1e-8)", "scale.whiten.epsilon_in", "floor"),
        cell("2.1 rloo", "baseline.kind", "leave_one_out", {EST: "rloo"}),
        cell("2.1 rloo", "scale.kind", "none", {EST: "rloo"}),
        cell("2.1 reinforce_baseline", "baseline.kind", "group_mean", {EST: "reinforce_baseline"}),
        cell("2.1 reinforce_baseline", "scale.whiten.level", "token", {EST: "reinforce_baseline"}),
        cell("2.1 group_norm", "scale.kind", "group_std", {EST: "group_norm"}),
        cell("2.1 group_norm", "scale.ddof", 1, {EST: "group_norm"}),
        cell("2.1 group_norm", "scale.epsilon", 1e-9, {EST: "group_norm"}),
        cell("2.1 group_norm", "scale.whiten", None, {EST: "group_norm"}),
        cell("2.1 dr_grpo", "baseline.kind", "group_mean", {EST: "dr_grpo"}),
        cell("2.1 dr_grpo", "scale.kind", "none", {EST: "dr_grpo"}),
        cell("2.1 flash_reinforce", "baseline.kind", "batch_mean", {EST: "flash_reinforce"}),
        cell("2.1 flash_reinforce", "scale.whiten", None, {EST: "flash_reinforce"}),
        cell("2.1 KL in reward 0.01", "kl.reward.coefficient", 0.01),
        cell("2.1 KL in reward k1", "kl.reward.estimator", "k1"),
        cell("2.1 KL after std", "kl.reward.stage", "after_scale", {EST: "rloo"}),
        cell("2.1 KL to go", "kl.reward.form", "to_go", {EST: "rloo"}),
        cell("2.1 clip of the finished advantage", "scale.reward_clip", (-10.0, 10.0), {EST: "rloo"}),
        cell("2.1 clip before GAE", "shaping.clip", (-10.0, 10.0)),
        cell("2.2 token-mean", "aggregation.kind", "token-mean"),
        cell("2.2 optimiser step", "aggregation.scope", "update"),
        cell(
            "2.2 rows without loss tokens",
            "aggregation.rows",
            "nonempty",
            {"actor.loss_agg_mode": "seq-mean-token-mean"},
        ),
        cell(
            "2.2 KL always token-mean",
            "kl.loss.aggregation.kind",
            "token-mean",
            {"actor.loss_agg_mode": "seq-mean-token-mean", KL_LOSS: True},
        ),
        cell("2.3 old recomputed", "ratio.denominator", "old"),
        cell("2.3 gspo", "ratio.level", "sequence", {"actor.policy_loss_type": "gspo"}),
        cell(
            "2.3 gspo row mean", "aggregation.kind", "seq-mean-token-mean", {"actor.policy_loss_type": "gspo"}
        ),
        cell(
            "2.3 gspo and correction",
            "ratio.denominator",
            "sampler",
            {"actor.policy_loss_type": "gspo", IS + "level": "token"},
        ),
        cell("2.3 eps low", "clip.epsilon_low", 0.2),
        cell("2.3 eps high", "clip.epsilon_high", 0.2),
        cell("2.3 eps pair", "clip.epsilon_high", 0.28, {"actor.eps_clip_low_high": [0.2, 0.28]}),
        cell("2.3 dual_clip none", "clip.dual", None),
        cell("2.3 dual_clip", "clip.dual", 3.0, {"actor.dual_clip": 3.0}),
        cell("2.3 ppo clamp", "ratio.clamp", 20.0),
        cell("2.4 correction off", "ratio.corrections", ()),
        cell("2.4 [0.5, 5]", "ratio.corrections.0.low", 0.5, {IS + "level": "token"}),
        cell("2.4 [0.5, 5]", "ratio.corrections.0.high", 5.0, {IS + "level": "token"}),
        cell("2.4 mode mask", "ratio.corrections.0.action", "mask", {IS + "level": "token"}),
        cell("2.4 level seq", "ratio.corrections.0.level", "sequence", {IS + "level": "seq"}),
        cell("2.4 level seq", "ratio.corrections.0.action", "gate", {IS + "level": "seq"}),
        cell(
            "2.4 one bound", "ratio.corrections.0.low", None, {IS + "level": "token", IS + "threshold": [3.0]}
        ),
        cell("2.4 filter off", "filter.dynamic_sampling", False),
        cell("2.4 filter", "filter.dynamic_sampling", True, {"algo.dynamic_filtering_enable": True}),
        cell("2.4 overlong capped", "shaping.overlong.capped", True, {"reward.overlong_buffer_len": 64}),
        cell(
            "2.4 overlong at max_len", "shaping.overlong.max_length", 2048, {"reward.overlong_buffer_len": 64}
        ),
        cell("1.3 k clamp", "kl.loss.output_clamp", 10.0, {KL_LOSS: True}),
        cell(
            "1.3 unbiased",
            "kl.loss.gradient",
            "straight_through",
            {KL_LOSS: True, "algo.kl.unbiased_gradient": 1},
        ),
        cell("1.3 unbiased", "kl.loss.ratio_cap", 10.0, {KL_LOSS: True, "algo.kl.unbiased_gradient": True}),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    check_cell("openrlhf", version or V, config, field, value)


def test_the_clip_bounds_the_advantage_and_then_each_token_pays_kl_to_go() -> None:
    objective = of(algo__advantage__estimator="rloo", reward__clip_range=[-0.4, 0.4], algo__kl__init_coef=0.1)
    rows = batch()
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for group in (rows[:4], rows[4:]):
        for row in group:
            others = [other.reward for other in group if other is not row]
            raw = min(max(row.reward - statistics.fmean(others), -0.4), 0.4)
            k1 = [o - f for o, f in zip(row.old, row.ref, strict=True)]
            made = []
            for t, (theta, old) in enumerate(zip(row.theta, row.old, strict=True)):
                advantage = raw - 0.1 * math.fsum(k1[t:])
                made.append(advantage * clipped(math.exp(theta - old), advantage, 0.2, 0.2) / tokens)
            expected.append(made)
    assert_weights(objective, rows, expected)


def test_group_norm_has_the_sample_std_and_almost_no_epsilon() -> None:
    objective = of(algo__advantage__estimator="group_norm", algo__kl__init_coef=0.0)
    rows = on_policy(batch())
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for group in (rows[:4], rows[4:]):
        rewards = [row.reward for row in group]
        mean, std = statistics.fmean(rewards), statistics.stdev(rewards)
        expected += [[(row.reward - mean) / (std + 1e-9) / tokens] * len(row.mask) for row in group]
    assert_weights(objective, rows, expected)


def test_reinforce_baseline_moves_the_advantage_of_groups_without_signal() -> None:
    objective = of(algo__advantage__estimator="reinforce_baseline", algo__kl__init_coef=0.0)
    rows = on_policy(batch(((1.0, 0.0, 0.0, 0.0), (0.5, 0.5, 0.5, 0.5))))
    lengths = [len(row.mask) for row in rows]
    raw = [row.reward - (0.25 if row.group == 0 else 0.5) for row in rows]
    total = sum(lengths)
    mean = math.fsum(a * n for a, n in zip(raw, lengths, strict=True)) / total
    var = math.fsum(n * (a - mean) ** 2 for a, n in zip(raw, lengths, strict=True)) / total
    expected = [[(a - mean) / math.sqrt(var) / total] * n for a, n in zip(raw, lengths, strict=True)]
    assert_weights(objective, rows, expected)
    assert weights(objective, rows)[4][0] < 0  # the long success lifts the mean over the dead group


def test_a_response_that_passes_the_gate_keeps_its_token_weights() -> None:
    config = {"is_correction_level": "seq", "is_correction_threshold": [0.95, 1.1], "estimator": "dr_grpo"}
    objective = of(algo__kl__init_coef=0.0, **{f"algo__advantage__{k}": v for k, v in config.items()})
    rows = batch(drift=0.2)
    tokens = sum(len(row.mask) for row in rows)
    expected, passed = [], 0
    for row in rows:
        mean = statistics.fmean([r.reward for r in rows if r.group == row.group])
        logs = [o - s for o, s in zip(row.old, row.sampler, strict=True)]
        inside = 0.95 <= math.exp(statistics.fmean(logs)) <= 1.1
        passed += inside
        ratios = [math.exp(t - o) for t, o in zip(row.theta, row.old, strict=True)]
        advantage = row.reward - mean
        expected.append(
            [
                inside * math.exp(u) * advantage * clipped(ratio, advantage, 0.2, 0.2) / tokens
                for u, ratio in zip(logs, ratios, strict=True)
            ]
        )
    assert 0 < passed < len(rows)
    assert_weights(objective, rows, expected)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"actor.entropy_coef": 0.01}, "actor.entropy_coef=0.01"),
        ({"algo.kl.target": 6.0}, "algo.kl.target=6.0"),
        ({EST: "reinforce", "algo.advantage.gamma": 0.99}, "algo.advantage.gamma=0.99"),
        ({"algo.advantage.no_std_norm": True}, "no_std_norm"),
        ({IS + "level": "seq", IS + "gating": "binary_kl"}, "is_correction_gating='binary_kl'"),
        (
            {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": [0.2, 0.8]},
            "filtering_range",
        ),
        ({"reward.stop_properly_penalty_coef": 0.5}, "stop_properly_penalty_coef=0.5"),
        (
            {KL_LOSS: True, "algo.kl.unbiased_gradient": True, "actor.policy_loss_type": "gspo"},
            "unbiased_gradient=True",
        ),
        ({EST: "grpo"}, "no algo.advantage.estimator 'grpo'"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("openrlhf", V, config)
    assert named in str(error.value)


def test_the_flat_names_of_old_versions_are_not_guessed() -> None:
    with pytest.raises(BadObjective, match=r"from 0\.10\.0"):
        from_framework("openrlhf", "0.9.1", {"init_kl_coef": 0.01})
