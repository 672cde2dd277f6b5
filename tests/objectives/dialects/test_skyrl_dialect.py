"""The SkyRL dialect: every cell of its row in the tables of methods, and weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell, clipped
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "0.3.0"
A = "trainer.algorithm."
EST, LOSS, RED = A + "advantage_estimator", A + "policy_loss_type", A + "loss_reduction"
OFF = A + "off_policy_correction."
NO_KL = {A + "use_kl_loss": False}
IN_REWARD = NO_KL | {A + "use_kl_in_reward": True}


def of(**config: Any) -> Any:
    return declared("skyrl", V, **config)


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 grpo mean", "baseline.kind", "group_mean"),
        cell("2.1 std", "scale.kind", "group_std"),
        cell("2.1 ddof 1", "scale.ddof", 1),
        cell("2.1 +1e-6", "scale.epsilon", 1e-6),
        cell("2.1 grpo_norm_by_std", "scale.kind", "none", {A + "grpo_norm_by_std": False}),
        cell("2.1 G = 1 grpo raw", "baseline.singleton", "raw"),
        cell("2.1 G = 1 rloo 0", "baseline.singleton", "zero", {EST: "rloo"}),
        cell("2.1 rloo", "baseline.kind", "leave_one_out", {EST: "rloo"}),
        cell("2.1 maxrl", "scale.kind", "group_mean", {EST: "maxrl"}),
        cell("2.1 maxrl +1e-6", "scale.epsilon", 1e-6, {EST: "maxrl"}),
        cell("2.1 rf++", "baseline.kind", "none", {EST: "reinforce++"}),
        cell("2.1 rf++ whitened", "scale.whiten.ddof", 1, {EST: "reinforce++"}),
        cell("2.1 rf++ whitened", "scale.whiten.epsilon_in", "variance", {EST: "reinforce++"}),
        cell("2.1 gae", "baseline.kind", "gae", {EST: "gae"}),
        cell("2.1 KL in reward option", "kl.reward.stage", "before_baseline", IN_REWARD),
        cell("2.1 KL in reward of rf++", "kl.reward.form", "to_go", IN_REWARD | {EST: "reinforce++"}),
        cell("2.2 token_mean", "aggregation.kind", "token-mean"),
        cell("2.2 mini-batch", "aggregation.scope", "update"),
        cell("2.2 sequence_mean", "aggregation.kind", "seq-mean-token-mean", {RED: "sequence_mean"}),
        cell("2.2 counted", "aggregation.rows", "all", {RED: "sequence_mean"}),
        cell(
            "2.2 sum_norm",
            "aggregation.constant",
            4096.0,
            {RED: "seq_mean_token_sum_norm", A + "max_seq_len": 4096},
        ),
        cell("2.2 prompt_mean", "aggregation.kind", "prompt-mean-token-mean", {RED: "prompt_mean"}),
        cell("2.2 legacy", "aggregation.scope", "micro_batch", {RED: "token_mean_legacy"}),
        cell("2.2 KL row mean always", "kl.loss.aggregation.kind", "seq-mean-token-mean"),
        cell("2.2 KL row mean always", "kl.loss.aggregation", None, {RED: "sequence_mean"}),
        cell("2.3 old", "ratio.denominator", "old"),
        cell("2.3 dppo sampler", "ratio.denominator", "sampler", {LOSS: "dppo"}),
        cell("2.3 dppo tv", "clip.divergence", "tv", {LOSS: "dppo"}),
        cell("2.3 dppo kl", "clip.divergence", "kl", {LOSS: "dppo", A + "dppo.dppo_type": "binary_kl"}),
        cell("2.3 rollout_is", "ratio.corrections.0.numerator", "theta", {LOSS: "rollout_is"}),
        cell("2.3 rollout_is band", "ratio.corrections.0.low", 0.8, {LOSS: "rollout_is"}),
        cell("2.3 low", "clip.epsilon_low", 0.2),
        cell("2.3 high", "clip.epsilon_high", 0.2),
        cell("2.3 dual only if dual_clip", "clip.dual", None),
        cell("2.3 dual c = 3", "clip.dual", 3.0, {LOSS: "dual_clip"}),
        cell("2.3 CISPO 0.3.0 [1, 6]", "clip.epsilon_low", 0.0, {LOSS: "cispo"}),
        cell("2.3 CISPO 0.3.0 [1, 6]", "clip.epsilon_high", 5.0, {LOSS: "cispo"}),
        cell("2.3 CISPO HEAD [0, 5]", "clip.epsilon_low", 1.0, {LOSS: "cispo"}, version="0.3.1"),
        cell("2.3 CISPO HEAD [0, 5]", "clip.epsilon_high", 4.0, {LOSS: "cispo"}, version="0.3.1"),
        cell("2.3 clamp 20", "ratio.clamp", 20.0),
        cell("4 GSPO token form", "ratio.level", "sequence_token", {LOSS: "gspo"}),
        cell("4 SAPO 1.0/1.05", "clip.tau_negative", 1.05, {LOSS: "sapo"}),
        cell("2.4 use_kl_loss 0.001", "kl.loss.coefficient", 0.001),
        cell("2.4 k3", "kl.loss.estimator", "k3"),
        cell("1.3 clamps", "kl.loss.input_clamp", 20.0),
        cell("1.3 clamps", "kl.loss.output_clamp", 10.0),
        cell("1.3 clamps of k3 only", "kl.loss.output_clamp", None, {A + "kl_estimator_type": "k2"}),
        cell("2.4 correction off", "ratio.corrections", ()),
        cell("2.4 token 2", "ratio.corrections.0.high", 2.0, {OFF + "tis_ratio_type": "token"}),
        cell("2.4 sequence 5", "ratio.corrections.0.high", 5.0, {OFF + "tis_ratio_type": "sequence"}),
        cell("2.4 sequence 5", "ratio.corrections.0.level", "product", {OFF + "tis_ratio_type": "sequence"}),
        cell(
            "2.4 geo mask",
            "ratio.corrections.0.level",
            "sequence",
            {OFF + "sequence_mask_metric": "geometric"},
        ),
        cell("2.4 geo mask", "ratio.corrections.0.low", 0.99, {OFF + "sequence_mask_metric": "geometric"}),
        cell(
            "2.4 product mask",
            "ratio.corrections.0.level",
            "product",
            {OFF + "sequence_mask_metric": "product"},
        ),
        cell("2.4 product mask", "ratio.corrections.0.high", 2.0, {OFF + "sequence_mask_metric": "product"}),
        cell("2.4 filter off", "filter.dynamic_sampling", False),
        cell(
            "2.4 zero_variance_filter",
            "filter.dynamic_sampling",
            True,
            NO_KL | {A + "zero_variance_filter": True},
        ),
        cell(
            "2.4 dynamic sampling", "filter.dynamic_sampling", True, {A + "dynamic_sampling.type": "filter"}
        ),
        cell("2.4 overlong", "filter.mask_truncated", True, {"generator.apply_overlong_filtering": True}),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    check_cell("skyrl", version or V, config, field, value)


def test_the_default_is_grpo_over_tokens_with_a_k3_over_rows() -> None:
    rows = batch()
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for row in rows:
        group = [r.reward for r in rows if r.group == row.group]
        advantage = (row.reward - statistics.fmean(group)) / (statistics.stdev(group) + 1e-6)
        made = []
        for theta, old, ref in zip(row.theta, row.old, row.ref, strict=True):
            policy = advantage * clipped(math.exp(theta - old), advantage, 0.2, 0.2) / tokens
            made.append(policy - 0.001 * (1 - math.exp(ref - theta)) / (len(rows) * len(row.mask)))
        expected.append(made)
    assert_weights(of(), rows, expected)


def test_rollout_is_keeps_the_weight_inside_the_band_only_whatever_the_sign() -> None:
    objective = of(policy_loss_type="rollout_is", use_kl_loss=False, grpo_norm_by_std=False)
    rows = batch(drift=0.25)
    tokens = sum(len(row.mask) for row in rows)
    expected, outside = [], 0
    for row in rows:
        advantage = row.reward - statistics.fmean([r.reward for r in rows if r.group == row.group])
        ratios = [math.exp(t - s) for t, s in zip(row.theta, row.sampler, strict=True)]
        outside += sum(not 0.8 < ratio < 1.2 for ratio in ratios)
        expected.append([advantage * ratio / tokens if 0.8 < ratio < 1.2 else 0.0 for ratio in ratios])
    assert outside
    assert_weights(objective, rows, expected)


def test_max_rl_divides_by_the_mean_plus_epsilon() -> None:
    objective = of(advantage_estimator="maxrl", use_kl_loss=False)
    rows = batch(drift=0.0)
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for row in rows:
        mean = statistics.fmean([r.reward for r in rows if r.group == row.group])
        expected.append([(row.reward - mean) / (mean + 1e-6) / tokens] * len(row.mask))
    assert_weights(objective, rows, expected)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({A + "use_entropy_loss": True}, "use_entropy_loss=True"),
        ({A + "advantage_batch_normalize": True}, "advantage_batch_normalize=True"),
        ({A + "kl_ctrl": {"type": "adaptive"}}, "kl_ctrl="),
        ({LOSS: "clip_cov"}, "policy_loss_type='clip_cov'"),
        ({LOSS: "kl_cov"}, "policy_loss_type='kl_cov'"),
        ({LOSS: "cross_entropy"}, "policy_loss_type='cross_entropy'"),
        ({OFF + "outlier_token_is_threshold_high": 100.0}, "off_policy_correction="),
        ({OFF + "tis_ratio_type": "geometric"}, "no tis_ratio_type 'geometric'"),
        ({A + "zero_variance_filter": True}, "zero_variance_filter=True"),
        ({A + "use_kl_in_reward": True}, "set use_kl_loss=false"),
        ({RED: "seq_mean_token_sum_norm"}, "max_seq_len"),
        ({EST: "reinforce++", A + "gamma": 0.9}, "gamma=0.9"),
        ({EST: "grop"}, "no trainer.algorithm.advantage_estimator 'grop'. Did you mean 'grpo'"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("skyrl", V, config)
    assert named in str(error.value)


def test_the_section_alone_is_read_as_the_whole_config() -> None:
    whole = {"trainer": {"algorithm": {"eps_clip_high": 0.28}, "epochs": 3}, "generator": {"n": 5}}
    assert from_framework("skyrl", V, whole) == from_framework("skyrl", V, {"eps_clip_high": 0.28})
