"""The open-instruct dialect: every cell of its row in the tables of methods; weights from the formulas."""

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
STD = {"advantage_normalization_type": "standard"}


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 mean", "baseline.kind", "group_mean"),
        cell("2.1 no std (centered)", "scale.kind", "none"),
        cell("2.1 standard", "scale.kind", "group_std", STD),
        cell("2.1 ddof 0", "scale.ddof", 0, STD),
        cell("2.1 +1e-8", "scale.epsilon", 1e-8, STD),
        cell("2.1 G = 1 -> 0", "baseline.singleton", "zero"),
        cell("2.1 no KL in reward", "kl.reward", None),
        cell("2.2 global tokens", "aggregation.kind", "token-mean"),
        cell("2.2 accumulation group", "aggregation.scope", "update"),
        cell("2.2 constant", "aggregation.kind", "token-sum-norm", {"loss_denominator": "50000"}),
        cell("2.2 constant", "aggregation.constant", 50000.0, {"loss_denominator": "50000"}),
        cell("2.2 KL same", "kl.loss.aggregation", None),
        cell("2.3 recomputed", "ratio.denominator", "old"),
        cell(
            "2.3 vLLM's",
            "ratio.denominator",
            "sampler",
            {"use_vllm_logprobs": True, "use_rho_correction": False},
        ),
        cell("2.3 low 0.2", "clip.epsilon_low", 0.2),
        cell("2.3 high 0.272", "clip.epsilon_high", 0.272),
        cell("2.3 cispo cap 1+eps", "clip.epsilon_high", 0.272, {"loss_fn": "cispo"}),
        cell("2.3 cispo no lower", "clip.epsilon_low", None, {"loss_fn": "cispo"}),
        cell("2.3 no log-ratio clamp", "ratio.clamp", None),
        cell("2.4 beta 0.05", "kl.loss.coefficient", 0.05),
        cell("2.4 index 2 = k3", "kl.loss.estimator", "k3"),
        cell("1.3 pathwise", "kl.loss.gradient", "pathwise"),
        cell("1.3 index 3", "kl.loss.estimator", "k1", {"kl_estimator": 3}),
        cell("1.3 index 3", "kl.loss.gradient", "ratio", {"kl_estimator": 3}),
        cell("1.3 log-ratio 40", "kl.loss.input_clamp", 40.0),
        cell("2.4 no reference", "kl.loss", None, {"load_ref_policy": False}),
        cell("2.4 rho clamp 2 on", "ratio.corrections.0.high", 2.0),
        cell("2.4 rho clamp 2 on", "ratio.corrections.0.action", "truncate"),
        cell("2.4 rho on pg only", "ratio.corrections.0.weighs_kl", False),
        cell("2.4 rho off", "ratio.corrections", (), {"use_rho_correction": False}),
        cell("2.4 rho mask", "ratio.corrections.1.action", "gate", {"rho_mask_upper_bound": 1.5}),
        cell("2.4 zero-std filter on", "filter.dynamic_sampling", True),
        cell("2.4 off", "filter.dynamic_sampling", False, {"filter_zero_std_samples": False}),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    check_cell("open-instruct", version or V, config, field, value)


@pytest.mark.parametrize("index", [2, 3])
def test_default_weights_are_centred_rewards_times_the_truncated_mismatch(index: int) -> None:
    rows = batch(((1.0, 0.0, 0.0, 0.0), (0.5, 0.5, 0.5, 0.5)), drift=0.6)
    tokens = sum(len(row.mask) for row in rows[:4])
    expected = []
    for row in rows:
        advantage = row.reward - 0.25
        made = []
        for theta, old, ref, sampler in zip(row.theta, row.old, row.ref, row.sampler, strict=True):
            ratio, d = math.exp(theta - old), theta - ref
            policy = min(math.exp(old - sampler), 2.0) * advantage * clipped(ratio, advantage, 0.2, 0.272)
            h = 1 - math.exp(-d) if index == 2 else ratio * (1 + d)
            made.append((policy - 0.05 * h) / tokens if row.group == 0 else 0.0)
        expected.append(made)
    assert_weights(declared("open-instruct", V, kl_estimator=index), rows, expected)


def test_standard_advantages_have_the_population_std() -> None:
    objective = declared("open-instruct", V, advantage_normalization_type="standard", beta=0.0)
    rows = batch(drift=0.0)
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for row in rows:
        group = [r.reward for r in rows if r.group == row.group]
        advantage = (row.reward - statistics.fmean(group)) / (statistics.pstdev(group) + 1e-8)
        expected.append([advantage / tokens] * len(row.mask))
    assert_weights(objective, rows, expected)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"mask_truncated_completions": True}, "mask_truncated_completions=True"),
        ({"rho_mask_tv_divergence": True, "rho_mask_upper_bound": 1.5}, "rho_mask_tv_divergence=True"),
        ({"kl_estimator": 4}, "no kl_estimator 4"),
        ({"loss_fn": "grpo"}, "no loss_fn 'grpo'"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("open-instruct", V, config)
    assert named in str(error.value)


def test_one_mini_batch_and_one_epoch_are_on_policy() -> None:
    assert "ratio is 1" in from_framework("open-instruct", V, {}).notes[0]
    assert from_framework("open-instruct", V, {"num_mini_batches": 4}).notes == ()
    moving = from_framework("open-instruct", V, {"num_epochs": 2, "ref_policy_update_freq": 5})
    assert "not frozen" in moving.notes[0]
