"""The ROLL dialect: every cell of its row in the tables of methods, and weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell, clipped, weights
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "0.3.0"
GRPO = {"adv_estimator": "grpo"}
REINFORCE = {"adv_estimator": "reinforce"}
WORKER = "roll.pipeline.rlvr.actor_pg_worker.ActorPGWorker"
TOKEN_KL = GRPO | {"add_token_level_kl": True}
KL_LOSS = {"use_kl_loss": True, "kl_loss_coef": 0.1}
FILTER = {"train_infer_correction": {"filters": [{"enabled": True}]}}
WEIGHT = {"train_infer_correction": {"is_weight": {"enabled": True}}}


def variant(name: str, **how: Any) -> dict[str, Any]:
    return GRPO | {"actor_train": {"worker_cls": WORKER, "pg_variant": name, **how}}


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 default gae", "baseline.kind", "gae"),
        cell("2.1 lambd 0.95", "baseline.lam", 0.95),
        cell("2.1 none", "scale.kind", "none"),
        cell("2.1 grpo group", "baseline.kind", "group_mean", GRPO),
        cell("2.1 grpo group", "scale.kind", "group_std", GRPO),
        cell("2.1 ddof 1", "scale.ddof", 1, GRPO),
        cell("2.1 +1e-6", "scale.epsilon", 1e-6, GRPO),
        cell("2.1 reinforce", "baseline.kind", "none", REINFORCE),
        cell("2.1 norm_mean_type", "baseline.kind", "batch_mean", REINFORCE | {"norm_mean_type": "batch"}),
        cell(
            "2.1 norm_std_type",
            "scale.kind",
            "batch_std",
            REINFORCE | {"norm_mean_type": "group", "norm_std_type": "batch"},
        ),
        cell("2.1 KL option off", "kl.reward", None, GRPO),
        cell("2.1 KL init 0.2", "kl.reward.coefficient", 0.2, TOKEN_KL),
        cell("2.1 KL kl", "kl.reward.estimator", "k1", TOKEN_KL),
        cell("2.1 KL mse", "kl.reward.estimator", "k2", TOKEN_KL | {"kl_penalty": "mse"}),
        cell("2.1 KL to go", "kl.reward.form", "to_go", TOKEN_KL),
        cell("2.1 reward_clip after", "scale.reward_clip", (-5.0, 5.0), GRPO | {"reward_clip": 5}),
        cell("2.1 reward_clip none", "scale.reward_clip", None, GRPO),
        cell("2.1 advantage_clip", "scale.clip", (-2.0, 2.0), GRPO | {"advantage_clip": 2.0}),
        cell("2.1 whiten_advantages", "scale.whiten.ddof", 1, GRPO | {"whiten_advantages": True}),
        cell("2.2 row mean", "aggregation.kind", "seq-mean-token-mean"),
        cell("2.2 + 1e-8", "aggregation.epsilon", 1e-8),
        cell("2.2 global counts", "aggregation.scope", "update"),
        cell("2.2 rows with tokens", "aggregation.rows", "nonempty"),
        cell("2.2 rows before a filter", "aggregation.rows", "all", FILTER),
        cell(
            "2.2 norm ÷ T only",
            "aggregation.kind",
            "token-sum-norm",
            {"loss_agg_mode": "seq-mean-token-sum-norm", "sequence_length": 4096},
        ),
        cell(
            "2.2 norm ÷ T only",
            "aggregation.constant",
            4095.0,
            {"loss_agg_mode": "seq-mean-token-sum-norm", "sequence_length": 4096},
        ),
        cell("2.2 KL same", "kl.loss.aggregation", None, KL_LOSS),
        cell("2.2 rl_loss_coef", "aggregation.factor", 0.5, {"rl_loss_coef": 0.5}),
        cell("2.3 old", "ratio.denominator", "old"),
        cell("2.3 0.2", "clip.epsilon_low", 0.2),
        cell("2.3 0.2", "clip.epsilon_high", 0.2),
        cell("2.3 range", "clip.epsilon_high", 0.28, {"use_pg_clip_range": True, "pg_clip_high": 0.28}),
        cell("2.3 dual off", "clip.dual", None),
        cell("2.3 dual 1 + 2 pg_clip", "clip.dual", 1.4, {"dual_clip_loss": True}),
        cell("2.3 cispo 0.9-1.1", "clip.epsilon_low", 0.1, variant("cispo")),
        cell("2.3 cispo 0.9-1.1", "clip.epsilon_high", 0.1, variant("cispo")),
        cell("1.2 cispo unified", "clip.masked", True, variant("cispo", cispo_use_unified_mask=True)),
        cell("2.3 tis 0-1", "clip.epsilon_low", 1.0, variant("tis")),
        cell("2.3 tis 0-1", "clip.epsilon_high", 0.0, variant("tis")),
        cell("1.2 kimi15", "clip.tau", 0.1, variant("kimi15")),
        cell("1.2 vanilla", "ratio.denominator", "theta", variant("vanilla")),
        cell("2.3 seq", "ratio.level", "sequence", {"importance_sampling": "seq"}),
        cell("2.3 no log-ratio clamp", "ratio.clamp", None),
        cell("2.4 coef 0", "kl.loss", None, {"use_kl_loss": True}),
        cell("2.4 k3", "kl.loss.estimator", "k3", KL_LOSS),
        cell("2.4 clamped 10", "kl.loss.output_clamp", 10.0, KL_LOSS),
        cell("1.3 no input clamp", "kl.loss.input_clamp", None, KL_LOSS),
        cell("2.4 correction off", "ratio.corrections", ()),
        cell("2.4 weight 1.2", "ratio.corrections.0.high", 1.2, WEIGHT),
        cell("2.4 filters [0.8, 1.2]", "ratio.corrections.0.low", 0.8, FILTER),
        cell("2.4 filters [0.8, 1.2]", "ratio.corrections.0.high", 1.2, FILTER),
        cell("2.4 filters mask KL too", "ratio.corrections.0.weighs_kl", True, FILTER),
        cell("2.4 difficulty mask", "filter.dynamic_sampling", True, {"difficulty_mask": True}),
        cell("2.4 max_len_mask", "filter.mask_truncated", True, {"max_len_mask": True}),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    check_cell("roll", version or V, config, field, value)


def test_grpo_clips_the_normalised_reward_and_averages_rows() -> None:
    objective = declared("roll", V, adv_estimator="grpo", reward_clip=0.8, **KL_LOSS)
    rows = batch()
    expected = []
    for row in rows:
        group = [r.reward for r in rows if r.group == row.group]
        advantage = (row.reward - statistics.fmean(group)) / (statistics.stdev(group) + 1e-6)
        advantage = min(max(advantage, -0.8), 0.8)
        made = []
        for theta, old, ref in zip(row.theta, row.old, row.ref, strict=True):
            policy = advantage * clipped(math.exp(theta - old), advantage, 0.2, 0.2)
            made.append((policy - 0.1 * (1 - math.exp(ref - theta))) / (len(rows) * (len(row.mask) + 1e-8)))
        expected.append(made)
    assert_weights(objective, rows, expected)


def test_kimi_regresses_the_log_ratio() -> None:
    objective = from_framework("roll", V, variant("kimi15", kimi15_tau=0.5) | {"loss_agg_mode": "token-mean"})
    rows = batch()
    tokens = sum(len(row.mask) for row in rows)
    expected = []
    for row in rows:
        group = [r.reward for r in rows if r.group == row.group]
        advantage = (row.reward - statistics.fmean(group)) / (statistics.stdev(group) + 1e-6)
        expected.append(
            [(advantage - 0.5 * (t - o)) / tokens for t, o in zip(row.theta, row.old, strict=True)]
        )
    assert_weights(objective.objective, rows, expected)


def test_a_filter_in_the_loss_shrinks_the_row_and_not_the_count_of_rows() -> None:
    objective = from_framework("roll", V, GRPO | FILTER).objective
    rows = batch(drift=0.25)
    expected, dropped = [], 0
    for row in rows:
        group = [r.reward for r in rows if r.group == row.group]
        advantage = (row.reward - statistics.fmean(group)) / (statistics.stdev(group) + 1e-6)
        kept = [0.8 <= math.exp(o - s) <= 1.2 for o, s in zip(row.old, row.sampler, strict=True)]
        dropped += len(kept) - sum(kept)
        expected.append(
            [
                keep
                * advantage
                * clipped(math.exp(t - o), advantage, 0.2, 0.2)
                / (len(rows) * max(sum(kept), 1))
                for keep, t, o in zip(kept, row.theta, row.old, strict=True)
            ]
        )
    assert dropped
    for mine, theirs in zip(weights(objective, rows), expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-7)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"entropy_loss_coef": 0.01}, "entropy_loss_coef=0.01"),
        ({"difficulty_loss_weight": True}, "difficulty_loss_weight=True"),
        ({"length_loss_weight": True}, "length_loss_weight=True"),
        ({"error_max_len_clip": True}, "error_max_len_clip=True"),
        ({"target_kl": 0.1}, "target_kl=0.1"),
        ({"use_opd": True}, "use_opd=True"),
        ({"use_topr_loss": True}, "use_topr_loss=True"),
        ({"adv_estimator": "gigpo"}, "adv_estimator='gigpo'"),
        ({"norm_mean_type": "batch"}, "norm_mean_type='batch'"),
        (REINFORCE | {"norm_std_type": "group"}, "norm_std_type='group'"),
        (REINFORCE | {"norm_mean_type": "running"}, "norm_std_type=None"),
        (REINFORCE | {"gamma": 0.9}, "gamma=0.9"),
        (variant("topr"), "pg_variant='topr'"),
        (variant("grpo"), "no pg_variant 'grpo'"),
        ({"use_policy_loss_type": "PG"}, "use_policy_loss_type='PG'"),
        ({"loss_agg_mode": "seq-mean-token-sum-norm"}, "sequence_length"),
        ({"difficulty_mask": True, "difficulty_low_threshold": 0.1}, "difficulty_mask=True"),
        (FILTER | {"loss_agg_mode": "token-mean"}, "keeps the filtered tokens"),
        (
            {"train_infer_correction": {"filters": [{"enabled": True, "diff_enabled": True}]}},
            "on probabilities",
        ),
        (
            {"train_infer_correction": {"is_weight": {"enabled": True, "weight_type": "segment"}}},
            "per segment",
        ),
        (TOKEN_KL | {"kl_penalty": "full"}, "kl_penalty='full'"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("roll", V, config)
    assert named in str(error.value)
