"""The NeMo-RL dialect: every cell of its row in the tables of methods, and weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell, clipped, on_policy, weights
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "0.7.0"
L = "loss_fn."
CORRECTED = {L + "use_importance_sampling_correction": True}
TIS = CORRECTED | {L + "truncated_importance_sampling_ratio": 2.0}
KIND = L + "truncated_importance_sampling_type"
ROWS = {L + "token_level_loss": False}
GSPO = ROWS | {L + "sequence_level_importance_ratios": True}
RFPP = {"grpo.adv_estimator": {"name": "reinforce_plus_plus"}}


def of(**config: Any) -> Any:
    return declared("nemo-rl", V, **config)


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 LOO", "baseline.kind", "leave_one_out"),
        cell("2.1 std of the other G-1", "scale.kind", "leave_one_out_std"),
        cell("2.1 ddof 1", "scale.ddof", 1),
        cell("2.1 +1e-6", "scale.epsilon", 1e-6),
        cell("2.1 G = 1 -> 0", "baseline.singleton", "zero"),
        cell("2.1 no LOO", "baseline.kind", "group_mean", {"grpo.use_leave_one_out_baseline": False}),
        cell("2.1 no LOO", "scale.kind", "group_std", {"grpo.use_leave_one_out_baseline": False}),
        cell("2.1 no std", "scale.kind", "none", {"grpo.normalize_rewards": False}),
        cell("2.1 KL in reward: RF++ only", "kl.reward", None, {L + "use_kl_in_reward": True}),
        cell(
            "2.1 KL in reward: RF++ only",
            "kl.reward.form",
            "token",
            {**RFPP, L + "use_kl_in_reward": True},
        ),
        cell("2.1 RF++ whitened", "scale.whiten.epsilon_in", "floor", RFPP),
        cell("2.1 RF++ ddof 0", "scale.whiten.ddof", 0, RFPP),
        cell("2.1 advantage_clip_high", "scale.clip.1", 2.0, {"grpo.advantage_clip_high": 2.0}),
        cell("2.1 advantage_clip_low", "scale.clip.0", -2.0, {"grpo.advantage_clip_low": -2.0}),
        cell("2.2 token-level", "aggregation.kind", "token-mean"),
        cell("2.2 + 1e-8", "aggregation.epsilon", 1e-8),
        cell("2.2 optimiser step", "aggregation.scope", "update"),
        cell("2.2 row mean", "aggregation.kind", "seq-mean-token-mean", ROWS),
        cell("2.2 valid rows", "aggregation.rows", "nonempty", ROWS),
        cell("2.2 KL same", "kl.loss.aggregation", None, ROWS),
        cell("2.3 prev_logprobs", "ratio.denominator", "old"),
        cell("2.3 force_on_policy_ratio", "ratio.denominator", "theta", {L + "force_on_policy_ratio": True}),
        cell("2.3 low", "clip.epsilon_low", 0.2),
        cell("2.3 high", "clip.epsilon_high", 0.2),
        cell("2.3 c null", "clip.dual", None),
        cell("2.3 c", "clip.dual", 3.0, {L + "ratio_clip_c": 3.0}),
        cell("2.3 CISPO 1-eps", "clip.epsilon_low", 0.2, {L + "use_cispo": True}),
        cell("2.3 CISPO", "clip.kind", "cispo", {L + "use_cispo": True}),
        cell("2.3 no log-ratio clamp", "ratio.clamp", None),
        cell("2.3 gspo", "ratio.level", "sequence", GSPO),
        cell("2.4 KL 0.01", "kl.loss.coefficient", 0.01),
        cell("2.4 k3", "kl.loss.estimator", "k3"),
        cell("1.3 ratio of 1", "kl.loss.gradient", "unit_ratio"),
        cell("1.3 before #2506", "kl.loss.gradient", "pathwise", version="0.6.0"),
        cell("1.3 input clamp", "kl.loss.input_clamp", 20.0),
        cell("1.3 output clamp", "kl.loss.output_clamp", 10.0),
        cell("2.4 correction off", "ratio.corrections", ()),
        cell("2.4 tis", "ratio.corrections.0.action", "truncate", TIS | {KIND: "tis"}),
        cell("2.4 tis", "ratio.corrections.0.high", 2.0, TIS | {KIND: "tis"}),
        cell("2.4 icepop", "ratio.corrections.0.action", "mask", TIS | {KIND: "icepop"}),
        cell("2.4 seq-mask-tis", "ratio.corrections.0.action", "gate", TIS | {KIND: "seq-mask-tis"}),
        cell("2.4 seq-mask-tis", "ratio.corrections.0.level", "sequence", TIS | {KIND: "seq-mask-tis"}),
        cell("2.4 seq-mask-tis", "ratio.corrections.1.high", None, TIS | {KIND: "seq-mask-tis"}),
        cell("2.4 GSPO product", "ratio.corrections.0.level", "product", GSPO | CORRECTED),
        cell("2.4 filter off", "filter.dynamic_sampling", False),
        cell("2.4 overlong off", "shaping.overlong", None),
        cell("2.4 overlong_filtering", "filter.mask_truncated", True, {"grpo.overlong_filtering": True}),
        cell(
            "2.4 overlong uncapped",
            "shaping.overlong.capped",
            False,
            {
                "grpo.reward_shaping": {
                    "enabled": True,
                    "overlong_buffer_length": 8,
                    "overlong_buffer_penalty": 1.0,
                    "max_response_length": 32,
                }
            },
        ),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    check_cell("nemo-rl", version or V, config, field, value)


def test_a_lone_success_has_advantage_1_and_its_failures_share_one_std() -> None:
    objective = of(loss_fn__reference_policy_kl_penalty=0.0)
    rows = on_policy(batch(((1.0, 0.0, 0.0, 0.0),)))
    tokens = sum(len(row.mask) for row in rows) + 1e-8
    sigma = statistics.stdev([1.0, 0.0, 0.0])
    failure = -(1 / 3) / (sigma + 1e-6)
    expected = [
        [a / tokens] * len(row.mask) for a, row in zip((1.0, failure, failure, failure), rows, strict=True)
    ]
    assert_weights(objective, rows, expected)
    assert failure == pytest.approx(-0.577, abs=1e-3)


def test_default_weights_are_ppo_and_a_k3_whose_weight_counts() -> None:
    rows = batch()
    tokens = sum(len(row.mask) for row in rows) + 1e-8
    expected = []
    for row in rows:
        others = [r.reward for r in rows if r.group == row.group and r is not row]
        sigma = statistics.stdev(others)
        advantage = row.reward - statistics.fmean(others)
        advantage = advantage / (sigma + 1e-6) if sigma > 0 else advantage
        made = []
        for theta, old, ref in zip(row.theta, row.old, row.ref, strict=True):
            policy = advantage * clipped(math.exp(theta - old), advantage, 0.2, 0.2)
            d = theta - ref
            made.append((policy - 0.01 * ((1 - math.exp(-d)) + (math.exp(-d) + d - 1))) / tokens)
        expected.append(made)
    assert_weights(of(), rows, expected)


def test_a_k3_beyond_its_clamp_does_not_pull_at_all() -> None:
    (row, *_) = on_policy(batch(((1.0, 0.0, 0.0, 0.0),)))
    far = type(row)(0.0, row.mask, row.theta, row.old, tuple(t + 3.0 for t in row.theta), row.theta)
    assert weights(of(), [far])[0] == [0.0] * len(row.mask)


def test_rewards_are_scaled_from_one_range_to_another() -> None:
    scaling = {"enabled": True, "source_min": 0.0, "source_max": 10.0, "target_min": -1.0, "target_max": 1.0}
    shaping = of(grpo__reward_scaling=scaling).shaping
    assert (shaping.clip, shaping.factor, shaping.offset) == ((0.0, 10.0), 0.2, -1.0)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"grpo.use_dynamic_sampling": True}, "use_dynamic_sampling=True"),
        ({"grpo.seq_logprob_error_threshold": 1.5}, "seq_logprob_error_threshold=1.5"),
        ({"grpo.invalid_tool_call_advantage": -5.0}, "invalid_tool_call_advantage=-5.0"),
        ({"grpo.adv_estimator": {"name": "gdpo"}}, "adv_estimator.name='gdpo'"),
        (
            {"grpo.reward_shaping": {"enabled": True, "stop_properly_penalty_coef": 0.0}},
            "stop_properly_penalty",
        ),
        ({"grpo.reward_shaping": {"enabled": True}}, "max_response_length"),
        ({L + "use_on_policy_kl_approximation": True}, "use_on_policy_kl_approximation=True"),
        ({L + "positive_example_nll_weight": 0.1}, "positive_example_nll_weight=0.1"),
        ({L + "disable_ppo_ratio": True, L + "ratio_clip_c": 3.0}, "ratio_clip_c=3.0"),
        ({L + "sequence_level_importance_ratios": True}, "token_level_loss=False"),
        (TIS | {KIND: "mis"}, "truncated_importance_sampling_type 'mis'"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("nemo-rl", V, config)
    assert named in str(error.value)


def test_dynamic_sampling_on_the_group_std_drops_groups_without_signal() -> None:
    config = {"grpo.use_dynamic_sampling": True, "grpo.use_leave_one_out_baseline": False}
    assert from_framework("nemo-rl", V, config).objective.filter.dynamic_sampling
