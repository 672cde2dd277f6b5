"""The TRL dialect: what each config and version declares."""

from __future__ import annotations

from typing import Any

import pytest

from audit.errors import BadObjective, UnknownName
from audit.objectives.dialects import DIALECTS, from_framework
from audit.objectives.dialects.trl import objective_from_config
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    from_dict,
)
from audit.objectives.surrogates import CISPOClip, PPOClip

GROUP_STD = Scale(kind="group_std", ddof=1, epsilon=1e-4)


def declared(config: dict[str, Any], version: str = "1.16.0", trainer: str = "GRPOTrainer") -> Objective:
    return from_framework("trl", version, config, trainer=trainer).objective


def test_the_defaults_of_1_16_are_dapo_without_kl() -> None:
    assert declared({}) == Objective(
        name="trl-dapo",
        baseline=Baseline(kind="group_mean"),
        scale=GROUP_STD,
        ratio=Ratio(denominator="old"),
        clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
        aggregation=Aggregation(kind="token-mean", scope="generation_batch"),
    )


@pytest.mark.parametrize(
    ("version", "aggregation", "clip", "kl"),
    [
        ("0.14.0", ("seq-mean-token-mean", "micro_batch"), "none", LossKL(coefficient=0.04)),
        ("0.15.2", ("seq-mean-token-mean", "micro_batch"), "none", LossKL(coefficient=0.04)),
        ("0.16.1", ("token-mean", "micro_batch"), "ppo", LossKL(coefficient=0.04)),
        ("0.18.0", ("token-mean", "micro_batch"), "ppo", LossKL(coefficient=0.04)),
        ("0.19.0", ("token-mean", "micro_batch"), "ppo", None),
        ("0.22.0", ("token-mean", "generation_batch"), "ppo", None),
        ("1.16.0", ("token-mean", "generation_batch"), "ppo", None),
    ],
)
def test_the_same_empty_config_is_another_algorithm_in_another_version(
    version: str, aggregation: tuple[str, str], clip: str, kl: LossKL | None
) -> None:
    objective = declared({}, version)
    assert (objective.aggregation.kind, objective.aggregation.scope) == aggregation
    assert objective.clip.kind == clip
    assert objective.kl == KL(loss=kl)
    assert objective.scale == GROUP_STD
    assert objective.ratio.denominator == ("theta" if clip == "none" else "old")


@pytest.mark.parametrize(
    ("version", "gradient"), [("1.9.0", "pathwise"), ("1.10.0", "ratio"), ("1.16.0", "ratio")]
)
def test_k3_is_multiplied_by_the_ratio_by_default_from_1_10(version: str, gradient: str) -> None:
    assert declared({"beta": 0.1}, version).kl.loss == LossKL(coefficient=0.1, gradient=gradient)


@pytest.mark.parametrize(
    ("loss_type", "aggregation"),
    [
        ("grpo", Aggregation(kind="seq-mean-token-mean", scope="micro_batch")),
        ("bnpo", Aggregation(kind="token-mean", scope="micro_batch")),
        ("dr_grpo", Aggregation(kind="seq-mean-token-sum-norm", scope="micro_batch", constant=512.0)),
        ("dapo", Aggregation(kind="token-mean", scope="generation_batch")),
        ("cispo", Aggregation(kind="token-mean", scope="generation_batch")),
        ("luspo", Aggregation(kind="seq-mean-token-sum", scope="micro_batch")),
    ],
)
def test_loss_type_sets_the_aggregation(loss_type: str, aggregation: Aggregation) -> None:
    assert declared({"loss_type": loss_type}).aggregation == aggregation


def test_dr_grpo_divides_by_the_completion_budget_of_the_version() -> None:
    assert declared({"loss_type": "dr_grpo"}, "1.9.0").aggregation.constant == 256.0
    assert declared({"loss_type": "dr_grpo", "max_completion_length": 32}).aggregation.constant == 32.0
    with pytest.raises(BadObjective, match="max_completion_length"):
        declared({"loss_type": "dr_grpo", "max_completion_length": None})


@pytest.mark.parametrize(
    ("value", "scale"),
    [
        (True, GROUP_STD),
        ("group", GROUP_STD),
        ("batch", Scale(kind="batch_std", ddof=1, epsilon=1e-4)),
        (False, Scale()),
        ("none", Scale()),
    ],
)
def test_scale_rewards_in_its_old_and_new_spelling(value: bool | str, scale: Scale) -> None:
    assert declared({"scale_rewards": value}).scale == scale


def test_the_cispo_cap_is_absolute() -> None:
    clip = declared({"loss_type": "cispo", "epsilon_high": 5.0}).clip
    assert clip == CISPOClip(epsilon_high=4.0)
    forgotten = declared({"loss_type": "cispo"}).clip
    assert forgotten.epsilon_high == pytest.approx(-0.8)  # a cap of 0.2: every on-policy weight times 0.2


def test_epsilon_high_defaults_to_epsilon_and_delta_is_the_two_sided_cap() -> None:
    assert declared({"epsilon": 0.3, "delta": 4.0}).clip == PPOClip(
        epsilon_low=0.3, epsilon_high=0.3, delta=4.0
    )


def test_gspo_is_the_sequence_level() -> None:
    config = {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
    }
    objective = declared(config)
    assert objective.ratio == Ratio(denominator="old", level="sequence")
    assert objective.clip == PPOClip(epsilon_low=3e-4, epsilon_high=4e-4)


def test_truncated_completions_are_masked() -> None:
    assert declared({"mask_truncated_completions": True}).filter == Filter(mask_truncated=True)


def test_rloo_clips_the_product_and_takes_the_kl_in_the_reward() -> None:
    assert declared({"reward_clip_range": [-1, 1]}, trainer="RLOOTrainer") == Objective(
        name="trl-rloo",
        shaping=Shaping(clip=(-1.0, 1.0)),
        baseline=Baseline(kind="leave_one_out"),
        ratio=Ratio(denominator="old", level="product"),
        clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
        aggregation=Aggregation(kind="seq-mean-token-sum", scope="micro_batch"),
        kl=KL(reward=RewardKL(coefficient=0.05, estimator="k1")),
    )
    assert declared({"beta": 0.0}, trainer="rloo").kl == KL()


def test_the_trainer_is_inferred_from_keys_that_only_one_config_has() -> None:
    rloo = objective_from_config({"reward_clip_range": None}, "1.16.0")
    assert rloo.objective.baseline.kind == "leave_one_out"
    assert "RLOOTrainer" in rloo.notes[0]
    assert objective_from_config({}, "1.16.0").objective.baseline.kind == "group_mean"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"loss_type": "sapo"}, "loss_type='sapo'"),
        ({"loss_type": "vespo"}, "loss_type='vespo'"),
        ({"top_entropy_quantile": 0.2}, "top_entropy_quantile=0.2"),
        ({"off_policy_mask_threshold": 0.1}, "off_policy_mask_threshold=0.1"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "normalize_then_sum"),
        ({"entropy_coef": 0.01}, "entropy_coef=0.01"),
        ({"use_adaptive_entropy": True}, "use_adaptive_entropy=True"),
        ({"use_vllm": True}, "vllm_importance_sampling_correction"),
    ],
)
def test_what_an_objective_cannot_express_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective, match="not expressible as an objective yet") as error:
        declared(config)
    assert named in str(error.value)


def test_whitened_rloo_advantages_are_refused() -> None:
    with pytest.raises(BadObjective, match="normalize_advantages=True"):
        declared({"normalize_advantages": True}, trainer="RLOOTrainer")


def test_vllm_without_correction_is_expressible() -> None:
    assert (
        declared({"use_vllm": True, "vllm_importance_sampling_correction": False}).ratio.denominator == "old"
    )
    assert declared({"use_vllm": True}, "0.22.0").ratio.denominator == "old"  # before the correction existed


def test_luspo_before_1_10_is_only_expressible_as_the_paper_has_it() -> None:
    config = {"loss_type": "luspo", "importance_sampling_level": "sequence"}
    assert declared(config, "1.9.0").aggregation.kind == "seq-mean-token-sum"
    with pytest.raises(BadObjective, match=r"before 1\.10\.0"):
        declared({**config, "beta": 0.1}, "1.9.0")


@pytest.mark.parametrize(
    ("version", "trainer", "match"),
    [
        ("0.13.0", "GRPOTrainer", r"known from 0\.14\.0"),
        ("0.21.0", "RLOOTrainer", "another algorithm"),
        ("main", "GRPOTrainer", "not a version number"),
    ],
)
def test_versions_that_were_not_read_are_refused(version: str, trainer: str, match: str) -> None:
    with pytest.raises(BadObjective, match=match):
        declared({}, version, trainer)


def test_notes_say_what_was_assumed() -> None:
    def notes(config: dict[str, Any], version: str = "1.16.0") -> str:
        return " ".join(from_framework("trl", version, config, trainer="GRPOTrainer").notes)

    assert notes({}) == ""
    assert "newer than the last version read" in notes({}, "1.17.0")
    assert "ratio is 1" in notes({"gradient_accumulation_steps": 4, "steps_per_generation": 4})
    assert "ratio is 1" not in notes({"gradient_accumulation_steps": 4, "num_iterations": 2})
    assert "2/4 of those" in notes({"gradient_accumulation_steps": 2, "steps_per_generation": 4}, "1.9.0")
    assert notes({"gradient_accumulation_steps": 2, "steps_per_generation": 4}, "1.10.0") == ""
    assert "not frozen" in notes({"sync_ref_model": True, "beta": 0.1})


def test_unknown_keys_that_look_like_options_are_reported() -> None:
    result = from_framework(
        "trl", "1.16.0", {"kl_penalty": "k2", "bf16": True, "adam_beta1": 0.9}, trainer="grpo"
    )
    assert result.unknown == ("kl_penalty",)


@pytest.mark.trl
@pytest.mark.parametrize("name", ["GRPO", "RLOO"])
def test_every_key_and_default_of_the_installed_version_is_known(name: str) -> None:
    import dataclasses

    trl = pytest.importorskip("trl")
    from audit.objectives.dialects.trl_config import complete

    fields = {
        field.name: field.default
        for field in dataclasses.fields(getattr(trl, f"{name}Config"))
        if field.default is not dataclasses.MISSING
    }
    result = from_framework("trl", trl.__version__, fields, trainer=f"{name}Trainer")
    assert result.unknown == ()
    assert result.objective == declared({}, trl.__version__, f"{name}Trainer")
    tabled = complete({}, trl.__version__, f"{name}Config")
    assert tabled == {key: fields[key] for key in tabled}


def test_every_declared_objective_survives_a_round_trip() -> None:
    for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo"):
        objective = declared({"loss_type": loss_type, "beta": 0.1})
        assert from_dict(objective.to_dict()) == objective


def test_unknown_frameworks_and_trainers_name_the_closest() -> None:
    with pytest.raises(UnknownName, match="trl"):
        from_framework("trll", "1.16.0", {})
    with pytest.raises(UnknownName, match="GRPOTrainer"):
        from_framework("trl", "1.16.0", {}, trainer="DPOTrainer")
    assert "trl" in DIALECTS
