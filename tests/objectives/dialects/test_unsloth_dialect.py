"""The Unsloth dialect: TRL's config under Unsloth's defaults and loss."""

from __future__ import annotations

from typing import Any

import pytest

from audit.errors import BadObjective, UnknownName
from audit.objectives.dialects import defaults, from_framework
from audit.objectives.objective import Correction, LossKL, Objective, from_dict
from audit.objectives.surrogates import CISPOClip, PPOClip


def declared(config: dict[str, Any], version: str = "2026.10.9", trl: str = "1.16.0") -> Objective:
    return from_framework("unsloth", version, {"trl_version": trl, **config}).objective


@pytest.mark.parametrize(
    ("cell", "trl", "config", "path", "value"),
    [
        ("dapo since TRL 0.22", "0.22.0", {}, "aggregation.scope", "generation_batch"),
        ("bnpo before", "0.21.0", {}, "aggregation.scope", "micro_batch"),
        ("β 0 with dapo", "1.16.0", {}, "kl.loss", None),
        ("β 0.001 else", "1.16.0", {"loss_type": "bnpo"}, "kl.loss.coefficient", 0.001),
        ("β as given", "1.16.0", {"beta": 0.04}, "kl.loss.coefficient", 0.04),
        ("default dapo keeps ε high", "1.16.0", {}, "clip.epsilon_high", 0.2),
        ("explicit dapo: 0.28", "1.16.0", {"loss_type": "dapo"}, "clip.epsilon_high", 0.28),
        ("explicit dapo masks truncated", "1.16.0", {"loss_type": "dapo"}, "filter.mask_truncated", True),
        ("default dapo does not", "1.16.0", {}, "filter.mask_truncated", False),
        ("dr_grpo drops the std", "1.16.0", {"loss_type": "dr_grpo"}, "scale.kind", "none"),
        (
            "dr_grpo, None keeps it",
            "1.16.0",
            {"loss_type": "dr_grpo", "scale_rewards": None},
            "scale.kind",
            "group_std",
        ),
        (
            "dr_grpo, batch stays",
            "1.16.0",
            {"loss_type": "dr_grpo", "scale_rewards": "batch"},
            "scale.kind",
            "batch_std",
        ),
        ("vLLM correction off", "1.16.0", {"use_vllm": True}, "ratio.corrections", ()),
        (
            "no mis-scale with an old TRL",
            "1.0.0",
            {"gradient_accumulation_steps": 8, "steps_per_generation": 2},
            "aggregation.factor",
            1.0,
        ),
        (
            "luspo: row sum with an old TRL",
            "1.0.0",
            {"loss_type": "luspo"},
            "aggregation.kind",
            "seq-mean-token-sum",
        ),
    ],
)
def test_a_default_of_its_own(cell: str, trl: str, config: dict[str, Any], path: str, value: Any) -> None:
    objective = declared(config, trl=trl)
    found: Any = objective.to_dict()
    for name in path.split("."):
        found = found[name]
    assert found == value, cell
    assert from_dict(objective.to_dict()) == objective


def test_cispo_gets_a_cap_of_5() -> None:
    assert declared({"loss_type": "cispo"}).clip == CISPOClip(epsilon_high=4.0)


def test_the_kl_is_clamped() -> None:
    plain = declared({"beta": 0.1, "use_bias_correction_kl": False})
    assert plain.kl.loss == LossKL(coefficient=0.1, input_clamp=20.0, output_clamp=10.0)
    found = from_framework("unsloth", "2026.10.9", {"trl_version": "1.16.0", "beta": 0.1})
    assert found.objective.kl.loss is not None
    assert found.objective.kl.loss.gradient == "ratio"
    assert "ratio · k3" in " ".join(found.notes)


def test_geometric_weights_and_rejection() -> None:
    config = {
        "use_vllm": True,
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "geometric_mask",
        "vllm_importance_sampling_clip_min": 0.5,
        "rollout_rs": "token_k1",
        "rollout_rs_threshold": "0.5_2.0",
    }
    assert declared(config).ratio.corrections == (
        Correction(action="mask", level="sequence", low=0.5, high=3.0),
        Correction(action="gate", level="token", low=0.5, high=2.0, weighs_kl=True),
    )


def test_rollout_log_probs_as_old_bring_a_delta_of_3() -> None:
    config = {
        "use_vllm": True,
        "vllm_importance_sampling_correction": True,
        "rollout_logps_as_old": True,
        "off_policy_mask_threshold": 0.1,
    }
    objective = declared(config)
    assert (objective.ratio.denominator, objective.ratio.clamp) == ("sampler", 20.0)
    assert objective.clip == PPOClip(epsilon_low=0.2, epsilon_high=0.2, delta=3.0)
    assert [correction.action for correction in objective.ratio.corrections] == ["gate"]
    assert declared({**config, "delta": 4.0}).clip == PPOClip(epsilon_low=0.2, epsilon_high=0.2, delta=4.0)
    silent = from_framework("unsloth", "2026.10.9", {"trl_version": "1.16.0", "use_vllm": True})
    assert "delta is 3 unless given" in " ".join(silent.notes)


@pytest.mark.parametrize(
    ("version", "config", "match"),
    [
        ("2026.10.9", {"trl_version": None}, "add trl_version"),
        ("2026.10.9", {"trl_version": "0.19.0"}, r"needs TRL 0\.20\.0"),
        ("2026.10.9", {"entropy_coef": 0.1}, "entropy_coef=0.1"),
        (
            "2026.6.1",
            {"use_vllm": True, "vllm_importance_sampling_correction": True},
            "a sum of ratios",
        ),
        (
            "2026.10.9",
            {
                "use_vllm": True,
                "vllm_importance_sampling_correction": True,
                "rollout_rs": "seq_mean_k3",
                "rollout_rs_threshold": 0.01,
            },
            "seq_mean_k3",
        ),
    ],
)
def test_what_is_refused(version: str, config: dict[str, Any], match: str) -> None:
    with pytest.raises(BadObjective, match=match):
        declared(config, version)


def test_trainers_versions_and_keys() -> None:
    config = {"trl_version": "1.16.0"}
    with pytest.raises(UnknownName, match="GRPOTrainer"):
        from_framework("unsloth", "2026.10.9", config, trainer="RLOOTrainer")
    found = from_framework(
        "unsloth", "2026.11.1", {**config, "kl_penalty": 1, "rollout_rs": None}, trainer="grpo"
    )
    assert found.unknown == ("kl_penalty",)
    assert "was read at 2026.10.9" in found.notes[0]
    own = defaults("unsloth", "2026.10.9", config)
    assert (own["beta"], own["vllm_importance_sampling_correction"]) == (0.0, False)
