"""TRL's choices, one row per choice: what it is, the field that holds it, and its value."""

from __future__ import annotations

from typing import Any

import pytest

from audit.objectives.dialects import from_framework

NEWEST = "1.16.0"
WHITEN = {
    "level": "sequence",
    "centre": True,
    "ddof": 1,
    "epsilon": 1e-4,
    "epsilon_in": "std",
}


def field(path: str, config: dict[str, Any], version: str = NEWEST, trainer: str = "GRPOTrainer") -> Any:
    value: Any = from_framework("trl", version, config, trainer=trainer).objective.to_dict()
    for name in path.split("."):
        value = value[name]
    return value


@pytest.mark.parametrize(
    ("cell", "path", "config", "value"),
    [
        ("baseline: mean incl. self", "baseline.kind", {}, "group_mean"),
        ("std: ddof 1", "scale.ddof", {}, 1),
        ("std: + 1e-4", "scale.epsilon", {}, 1e-4),
        ("scale_rewards: group", "scale.kind", {"scale_rewards": "group"}, "group_std"),
        ("scale_rewards: batch", "scale.kind", {"scale_rewards": "batch"}, "batch_std"),
        ("scale_rewards: none", "scale.kind", {"scale_rewards": "none"}, "none"),
        ("KL in reward: no", "kl.reward", {"beta": 0.1}, None),
        ("no clip of the advantage", "scale.clip", {}, None),
        ("no whitening", "scale.whiten", {}, None),
        ("reward_weights are in the reward", "shaping.weights", {"reward_weights": [1, 2]}, None),
        ("aggregation default: dapo", "aggregation.kind", {}, "token-mean"),
        ("dapo: tokens of the generation batch", "aggregation.scope", {}, "generation_batch"),
        ("cispo: the same", "aggregation.scope", {"loss_type": "cispo"}, "generation_batch"),
        ("vespo: the same", "aggregation.scope", {"loss_type": "vespo"}, "generation_batch"),
        ("bnpo: tokens of the micro-batch", "aggregation.scope", {"loss_type": "bnpo"}, "micro_batch"),
        ("grpo: row mean", "aggregation.kind", {"loss_type": "grpo"}, "seq-mean-token-mean"),
        ("grpo: rows of the micro-batch", "aggregation.scope", {"loss_type": "grpo"}, "micro_batch"),
        ("sapo: row mean", "aggregation.kind", {"loss_type": "sapo"}, "seq-mean-token-mean"),
        ("sapo: rows of the micro-batch", "aggregation.scope", {"loss_type": "sapo"}, "micro_batch"),
        ("luspo: row sum", "aggregation.kind", {"loss_type": "luspo"}, "seq-mean-token-sum"),
        ("luspo: rows of the micro-batch", "aggregation.scope", {"loss_type": "luspo"}, "micro_batch"),
        (
            "dr_grpo: over rows and a budget",
            "aggregation.kind",
            {"loss_type": "dr_grpo"},
            "seq-mean-token-sum-norm",
        ),
        ("dr_grpo: C = max_completion_length", "aggregation.constant", {"loss_type": "dr_grpo"}, 512.0),
        ("rows without tokens are counted", "aggregation.rows", {"loss_type": "grpo"}, "all"),
        ("the KL is averaged the same", "kl.loss.aggregation", {"beta": 0.1}, None),
        ("denominator: recomputed old", "ratio.denominator", {}, "old"),
        ("ε low 0.2", "clip.epsilon_low", {}, 0.2),
        ("ε high = low", "clip.epsilon_high", {"epsilon": 0.1}, 0.1),
        ("delta None", "clip.delta", {}, None),
        ("no dual clip", "clip.dual", {}, None),
        ("level token", "ratio.level", {}, "token"),
        ("level sequence", "ratio.level", {"importance_sampling_level": "sequence"}, "sequence"),
        ("no clamp of the log-ratio", "ratio.clamp", {}, None),
        ("β 0", "kl.loss", {}, None),
        ("k3", "kl.loss.estimator", {"beta": 0.1}, "k3"),
        ("k3 × ratio", "kl.loss.gradient", {"beta": 0.1}, "ratio"),
        ("no KL clamp: input", "kl.loss.input_clamp", {"beta": 0.1}, None),
        ("no KL clamp: output", "kl.loss.output_clamp", {"beta": 0.1}, None),
        ("no sampler correction without vLLM", "ratio.corrections", {}, ()),
        ("no filter of groups", "filter.dynamic_sampling", {}, False),
        ("no filter of rows", "filter.zero_advantage", {}, False),
        ("mask_truncated_completions off", "filter.mask_truncated", {}, False),
        ("entropy mask off", "filter.top_entropy", {}, 1.0),
        ("no overlong penalty of its own", "shaping.overlong", {}, None),
    ],
)
def test_grpo(cell: str, path: str, config: dict[str, Any], value: Any) -> None:
    assert field(path, config) == value, cell


@pytest.mark.parametrize(
    ("cell", "path", "config", "value"),
    [
        ("baseline: LOO", "baseline.kind", {}, "leave_one_out"),
        ("std: none", "scale.kind", {}, "none"),
        ("normalize_advantages off", "scale.whiten", {}, None),
        ("batch z-score ddof 1 + 1e-4", "scale.whiten", {"normalize_advantages": True}, WHITEN),
        ("KL in reward: β 0.05", "kl.reward.coefficient", {}, 0.05),
        ("k1", "kl.reward.estimator", {}, "k1"),
        ("of old", "kl.reward.policy", {}, "old"),
        ("before the baseline", "kl.reward.stage", {}, "before_baseline"),
        ("summed", "kl.reward.form", {}, "sum"),
        ("no KL in the loss", "kl.loss", {}, None),
        ("reward_clip_range before the KL", "shaping.clip", {"reward_clip_range": [-2, 2]}, (-2.0, 2.0)),
        ("a clipped product ratio", "ratio.level", {}, "product"),
        ("ε 0.2", "clip.epsilon_low", {}, 0.2),
        ("mean over rows of the sequence term", "aggregation.kind", {}, "seq-mean-token-sum"),
        ("of the micro-batch", "aggregation.scope", {}, "micro_batch"),
    ],
)
def test_rloo(cell: str, path: str, config: dict[str, Any], value: Any) -> None:
    assert field(path, config, trainer="RLOOTrainer") == value, cell


@pytest.mark.parametrize(
    ("cell", "path", "config", "last", "value", "first", "then"),
    [
        ("β 0.04 → 0", "kl.loss", {}, "0.18.2", {"coefficient": 0.04}, "0.19.0", None),
        ("bnpo → dapo", "aggregation.scope", {}, "0.21.0", "micro_batch", "0.22.0", "generation_batch"),
        (
            "row mean → micro-batch mean",
            "aggregation.kind",
            {},
            "0.15.2",
            "seq-mean-token-mean",
            "0.16.0",
            "token-mean",
        ),
        ("no ratio → old", "ratio.denominator", {}, "0.15.2", "theta", "0.16.0", "old"),
        (
            "bias-corrected KL off → on",
            "kl.loss.gradient",
            {"beta": 0.1},
            "1.9.0",
            "pathwise",
            "1.10.0",
            "ratio",
        ),
        (
            "GA / steps_per_generation mis-scale: ×0.5 at 4/2 the other way",
            "aggregation.factor",
            {"gradient_accumulation_steps": 2, "steps_per_generation": 4},
            "1.9.0",
            0.5,
            "1.10.0",
            1.0,
        ),
        (
            "×4 at 8/32 the other way",
            "aggregation.factor",
            {"gradient_accumulation_steps": 32, "steps_per_generation": 8},
            "1.9.0",
            4.0,
            "1.10.0",
            1.0,
        ),
        ("C 256 → 512", "aggregation.constant", {"loss_type": "dr_grpo"}, "1.9.0", 256.0, "1.10.0", 512.0),
    ],
)
def test_a_default_changed_with_a_version(
    cell: str, path: str, config: dict[str, Any], last: str, value: Any, first: str, then: Any
) -> None:
    before = field(path, config, last)
    assert value.items() <= before.items() if isinstance(value, dict) else before == value, cell
    assert field(path, config, first) == then, cell
