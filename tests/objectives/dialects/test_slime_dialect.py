"""The slime dialect, and miles: every cell of its row in the tables of methods; weights from the formulas."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from tiny_batch import assert_weights, batch, cell, check_cell, clipped
from tiny_batch import objective as declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework

V = "0.3.1"
EST = "advantage_estimator"
KL_LOSS = {"use_kl_loss": True, "kl_loss_coef": 0.1}
ICEPOP = {"use_tis": True, "custom_tis_function_path": "slime.backends.megatron_utils.loss.icepop_function"}
RFPP = {EST: "reinforce_plus_plus", "normalize_advantages": True}


@pytest.mark.parametrize(
    ("config", "field", "value", "version"),
    [
        cell("2.1 mean", "baseline.kind", "group_mean"),
        cell("2.1 std", "scale.kind", "group_std"),
        cell("2.1 ddof 1", "scale.ddof", 1),
        cell("2.1 +1e-6", "scale.epsilon", 1e-6),
        cell("2.1 disable std", "scale.kind", "none", {"grpo_std_normalization": False}),
        cell("2.1 disable rewards normalization", "baseline.kind", "none", {"rewards_normalization": False}),
        cell("2.1 disable rewards normalization", "scale.kind", "none", {"rewards_normalization": False}),
        cell("2.1 the flag itself", "scale.kind", "none", {"--disable-grpo-std-normalization": True}),
        cell("2.1 the flag itself", "baseline.kind", "none", {"--disable-rewards-normalization": True}),
        cell("2.1 KL ignored", "kl.reward", None, {"kl_coef": 0.1}),
        cell("2.1 KL in rf++", "kl.reward.form", "to_go", RFPP | {"kl_coef": 0.1}),
        cell("2.1 rf++ baseline", "baseline.kind", "none", RFPP),
        cell("2.1 rf++ whitened", "scale.whiten.ddof", 1, RFPP),
        cell("2.1 rf++_baseline", "scale.kind", "none", {EST: "reinforce_plus_plus_baseline"}),
        cell("2.1 rf++_baseline", "baseline.kind", "group_mean", {EST: "reinforce_plus_plus_baseline"}),
        cell("2.1 ppo", "baseline.kind", "gae", {EST: "ppo"}),
        cell("2.2 per-rollout mean", "aggregation.kind", "seq-mean-token-mean"),
        cell("2.2 counted", "aggregation.rows", "all"),
        cell("2.2 step", "aggregation.scope", "update"),
        cell("2.2 per token", "aggregation.kind", "token-mean", {"calculate_per_token_loss": True}),
        cell("2.2 KL same", "kl.loss.aggregation", None, KL_LOSS),
        cell("2.3 old", "ratio.denominator", "old"),
        cell("2.3 use_rollout_logprobs", "ratio.denominator", "sampler", {"use_rollout_logprobs": True}),
        cell("2.3 low", "clip.epsilon_low", 0.2),
        cell("2.3 high = low", "clip.epsilon_high", 0.3, {"eps_clip": 0.3}),
        cell("2.3 high", "clip.epsilon_high", 0.28, {"--eps-clip-high": 0.28}),
        cell("2.3 eps_clip_c None", "clip.dual", None),
        cell("2.3 eps_clip_c", "clip.dual", 3.0, {"eps_clip_c": 3.0}),
        cell("2.3 CISPO 1-eps", "clip.kind", "cispo", {EST: "cispo"}),
        cell("2.3 CISPO lower bound stays", "clip.epsilon_low", 0.2, {EST: "cispo"}),
        cell("2.3 gspo", "ratio.level", "sequence", {EST: "gspo"}),
        cell("2.3 no log-ratio clamp", "ratio.clamp", None),
        cell("2.4 no KL", "kl.loss", None),
        cell("2.4 coef 0", "kl.loss", None, {"use_kl_loss": True}),
        cell("2.4 type k1", "kl.loss.estimator", "k1", KL_LOSS),
        cell("1.3 pathwise", "kl.loss.gradient", "pathwise", KL_LOSS),
        cell("1.3 unbiased", "kl.loss.gradient", "ratio", KL_LOSS | {"use_unbiased_kl": True}),
        cell("1.3 low_var_kl", "kl.loss.estimator", "k3", KL_LOSS | {"kl_loss_type": "low_var_kl"}),
        cell("1.3 low_var_kl clamp", "kl.loss.output_clamp", 10.0, KL_LOSS | {"kl_loss_type": "low_var_kl"}),
        cell("1.3 k3 no clamp", "kl.loss.output_clamp", None, KL_LOSS | {"kl_loss_type": "k3"}),
        cell("2.4 correction off", "ratio.corrections", ()),
        cell("2.4 clamp [0, 2]", "ratio.corrections.0.high", 2.0, {"use_tis": True}),
        cell("2.4 clamp [0, 2]", "ratio.corrections.0.low", 0.0, {"use_tis": True}),
        cell("2.4 icepop", "ratio.corrections.0.action", "mask", ICEPOP),
        cell("2.4 OPSM 1e-4", "ratio.corrections.0.low", math.exp(-1e-4), {"use_opsm": True}),
        cell("2.4 OPSM keeps A >= 0", "ratio.corrections.0.keep_nonnegative", True, {"use_opsm": True}),
        cell("2.4 OPSM of theta and old", "ratio.corrections.0.against", "old", {"use_opsm": True}),
        cell("2.4 filter none", "filter.dynamic_sampling", False),
        cell(
            "2.4 std helper",
            "filter.dynamic_sampling",
            True,
            {"dynamic_sampling_filter_path": "slime.rollout.filter_hub.x.check_reward_nonzero_std"},
        ),
    ],
)
def test_cells_of_the_tables(config: Any, field: str, value: Any, version: str | None) -> None:
    for framework in ("slime", "miles"):
        check_cell(framework, version or V, config, field, value)


def test_default_weights_are_grpo_with_row_means_and_an_unbiased_k3() -> None:
    objective = declared(
        "slime", V, use_kl_loss=True, kl_loss_coef=0.1, kl_loss_type="k3", use_unbiased_kl=True
    )
    rows = batch()
    expected = []
    for row in rows:
        group = [r.reward for r in rows if r.group == row.group]
        advantage = (row.reward - statistics.fmean(group)) / (statistics.stdev(group) + 1e-6)
        made = []
        for theta, old, ref in zip(row.theta, row.old, row.ref, strict=True):
            ratio = math.exp(theta - old)
            policy = advantage * clipped(ratio, advantage, 0.2, 0.2)
            made.append((policy - 0.1 * ratio * (theta - ref)) / (len(rows) * len(row.mask)))
        expected.append(made)
    assert_weights(objective, rows, expected)


def test_the_off_policy_mask_drops_punished_responses_that_became_less_likely() -> None:
    objective = declared(
        "slime", V, use_opsm=True, opsm_delta=0.01, grpo_std_normalization=False, use_tis=True
    )
    rows = batch()
    expected, masked = [], 0
    for row in rows:
        advantage = row.reward - statistics.fmean([r.reward for r in rows if r.group == row.group])
        pairs = list(zip(row.theta, row.old, row.sampler, strict=True))
        off = advantage < 0 and statistics.fmean([old - theta for theta, old, _ in pairs]) > 0.01
        masked += off
        made = [
            min(math.exp(old - sampler), 2.0)
            * advantage
            * clipped(math.exp(theta - old), advantage, 0.2, 0.2)
            for theta, old, sampler in pairs
        ]
        expected.append([0.0 if off else w / (len(rows) * len(row.mask)) for w in made])
    assert masked
    assert_weights(objective, rows, expected)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"entropy_coef": 0.01}, "entropy_coef=0.01"),
        ({"use_opd": True}, "use_opd=True"),
        ({"compute_advantages_and_returns": False}, "compute_advantages_and_returns=False"),
        ({"loss_type": "custom_loss"}, "loss_type='custom_loss'"),
        ({"custom_advantage_function_path": "a.b"}, "custom_advantage_function_path='a.b'"),
        ({"use_tis": True, "custom_tis_function_path": "a.b"}, "custom_tis_function_path='a.b'"),
        (RFPP | {"gamma": 0.9}, "gamma=0.9"),
        (KL_LOSS | {EST: "gspo", "use_unbiased_kl": True}, "use_unbiased_kl=True"),
        ({EST: "rloo"}, "no advantage_estimator 'rloo'"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective) as error:
        from_framework("slime", V, config)
    assert named in str(error.value)


def test_notes_say_what_was_assumed() -> None:
    def notes(config: dict[str, Any]) -> str:
        return " ".join(from_framework("slime", V, {"n_samples_per_prompt": 8, **config}).notes)

    assert notes({}) == ""
    assert "not a number" in notes({"n_samples_per_prompt": 1})
    assert "does nothing with grpo" in notes({"kl_coef": 0.1})
    assert "not frozen" in notes({"ref_update_interval": 10})
    assert "they differ where k is near 10" in notes(
        KL_LOSS | {"kl_loss_type": "low_var_kl", "use_unbiased_kl": True}
    )
    assert "all that were logged count" in notes({"dynamic_sampling_filter_path": "mine.keep"})
