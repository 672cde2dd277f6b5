"""The TRL dialect: what each config and version declares."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from audit.errors import BadObjective, UnknownName
from audit.objectives.dialects import DIALECTS, from_framework
from audit.objectives.dialects.trl import objective_from_config
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Correction,
    Filter,
    LossKL,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
    from_dict,
)
from audit.objectives.surrogates import GMPO, SAPO, VESPO, CISPOClip, PPOClip

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


def test_on_policy_the_policy_itself_is_the_denominator() -> None:
    config = {"gradient_accumulation_steps": 4, "steps_per_generation": 4}
    assert declared(config).ratio == Ratio()
    assert declared({**config, "num_iterations": 2}).ratio.denominator == "old"
    assert declared({**config, "use_vllm": True}).ratio.denominator == "old"
    assert declared({**config, "importance_sampling_level": "sequence"}).ratio.level == "sequence"


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
        ({"entropy_coef": 0.01}, "entropy_coef=0.01"),
        ({"use_adaptive_entropy": True}, "use_adaptive_entropy=True"),
        ({"entropy_coef": 0.01, "use_adaptive_entropy": True}, "use_adaptive_entropy=True"),
    ],
)
def test_an_entropy_bonus_is_refused_by_name(config: dict[str, Any], named: str) -> None:
    with pytest.raises(BadObjective, match="not expressible as an objective") as error:
        declared(config)
    assert named in str(error.value)


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"loss_type": "gspo"}, "no loss_type 'gspo'"),
        ({"scale_rewards": "token"}, "no scale_rewards 'token'"),
        ({"top_entropy_quantile": 0.0}, "top_entropy_quantile=0.0 must lie"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "add reward_funcs"),
        (
            {
                "multi_objective_aggregation": "normalize_then_sum",
                "reward_funcs": ["a", "b"],
                "reward_weights": [1],
            },
            "reward_weights has 1 entries for 2",
        ),
        ({"use_vllm": True, "vllm_importance_sampling_mode": "geometric_mask"}, "no vllm_importance"),
        ({"use_vllm": True, "loss_type": "vespo"}, "only token modes"),
    ],
)
def test_what_trl_itself_would_refuse_is_refused(config: dict[str, Any], match: str) -> None:
    with pytest.raises(BadObjective, match=match):
        declared(config)


def test_sapo_and_vespo_are_surrogates_with_trls_own_temperatures() -> None:
    sapo = declared({"loss_type": "sapo", "sapo_temperature_neg": 1.2})
    assert sapo.clip == SAPO(tau_positive=1.0, tau_negative=1.2)
    assert sapo.aggregation == Aggregation(kind="seq-mean-token-mean", scope="micro_batch")
    vespo = declared({"loss_type": "vespo", "vespo_k_pos": 1.0})
    assert vespo.clip == VESPO(k_positive=1.0)
    assert vespo.aggregation == Aggregation(kind="token-mean", scope="generation_batch")


def test_the_entropy_quantile_is_the_share_of_tokens_that_trains() -> None:
    assert declared({"top_entropy_quantile": 0.2}).filter.top_entropy == 0.2


def test_whitened_rloo_advantages_are_standardised_over_responses() -> None:
    scale = declared({"normalize_advantages": True}, trainer="RLOOTrainer").scale
    assert scale == Scale(whiten=Whiten(level="sequence", ddof=1, epsilon=1e-4))


def test_gdpo_standardises_each_reward_and_then_their_sum() -> None:
    config = {
        "multi_objective_aggregation": "normalize_then_sum",
        "reward_funcs": ["trl.rewards.accuracy_reward", "think_format_reward"],
        "reward_weights": [1.0, 0.5],
        "scale_rewards": "none",
    }
    objective = declared(config)
    assert objective.shaping == Shaping(
        per_component=True, weights={"accuracy_reward": 1.0, "think_format_reward": 0.5}
    )
    assert objective.scale == Scale(
        kind="group_std", ddof=1, epsilon=1e-4, whiten=Whiten(level="sequence", ddof=1, epsilon=1e-4)
    )
    assert declared({"reward_weights": [1.0, 0.5]}).shaping == Shaping()  # in the reward already


@pytest.mark.parametrize(
    ("version", "config", "correction"),
    [
        ("0.23.0", {}, Correction(action="truncate", level="token", high=2.0)),
        ("0.25.0", {}, Correction(action="truncate", level="token", high=2.0)),
        ("0.26.0", {}, Correction(action="mask", level="product", high=3.0)),
        (
            "1.5.0",
            {"vllm_importance_sampling_cap": 2.0},
            Correction(action="mask", level="product", high=2.0),
        ),
        ("1.16.0", {}, Correction(action="mask", level="product", high=3.0)),
        ("1.16.0", {"vllm_importance_sampling_cap": 5}, Correction(action="mask", level="product", high=5)),
        (
            "1.16.0",
            {"vllm_importance_sampling_mode": "token_mask", "vllm_importance_sampling_clip_min": 0.5},
            Correction(action="mask", level="token", low=0.5, high=3.0),
        ),
        (
            "1.16.0",
            {
                "vllm_importance_sampling_mode": "token_truncate",
                "vllm_importance_sampling_clip_min": 0.5,
                "vllm_importance_sampling_clip_max": None,
            },
            Correction(action="truncate", level="token", low=0.5),
        ),
        (
            "1.16.0",
            {"vllm_importance_sampling_mode": "sequence_truncate"},
            Correction(action="truncate", level="product", high=3.0),
        ),
    ],
)
def test_vllm_is_corrected_for_by_default(
    version: str, config: dict[str, Any], correction: Correction
) -> None:
    assert declared({"use_vllm": True, **config}, version).ratio.corrections == (correction,)
    assert declared(config, version).ratio.corrections == ()


def test_the_off_policy_mask_gates_responses_by_their_mean_log_ratio() -> None:
    gate = Correction(
        action="gate", level="sequence", numerator="theta", low=math.exp(-0.1), keep_nonnegative=True
    )
    sampled = {"use_vllm": True, "vllm_importance_sampling_correction": False}
    asked = {"off_policy_mask_threshold": 0.1}
    assert declared({**sampled, **asked}).ratio.corrections == (gate,)
    old = msgspec.structs.replace(gate, against="old")
    assert declared(asked).ratio.corrections == (old,)
    on_policy = {"gradient_accumulation_steps": 4, "steps_per_generation": 4}
    assert declared({**asked, **on_policy}).ratio.corrections == ()  # old is theta: nothing is off-policy
    both = declared({"use_vllm": True, **asked}).ratio.corrections
    assert [correction.action for correction in both] == ["gate", "mask"]


def test_before_1_10_accumulation_did_not_reach_the_normaliser() -> None:
    config = {"gradient_accumulation_steps": 8, "steps_per_generation": 2}
    assert declared(config, "1.9.0").aggregation.factor == 4.0
    assert declared(config, "1.10.0").aggregation.factor == 1.0
    assert declared({**config, "loss_type": "bnpo"}, "1.9.0").aggregation.factor == 1.0
    assert declared({"gradient_accumulation_steps": 8}, "1.9.0").aggregation.factor == 1.0


def test_gmpo_clips_log_ratios_and_ignores_the_loss_type() -> None:
    objective = declared({"loss_type": "dapo", "beta": 0.1}, trainer="GMPOTrainer")
    assert objective.clip == GMPO(epsilon_low=0.4, epsilon_high=0.4)
    assert objective.aggregation == Aggregation(kind="seq-mean-token-mean", scope="micro_batch")
    assert objective.kl.loss == LossKL(coefficient=0.1)  # never times the ratio
    assert declared({"use_vllm": True}, trainer="gmpo").ratio == Ratio(denominator="old")
    with pytest.raises(BadObjective, match="leave the geometric mean"):
        declared({"top_entropy_quantile": 0.5}, trainer="gmpo")


def test_vllm_without_correction_is_expressible() -> None:
    assert (
        declared({"use_vllm": True, "vllm_importance_sampling_correction": False}).ratio.denominator == "old"
    )
    assert declared({"use_vllm": True}, "0.22.0").ratio.denominator == "old"  # before the correction existed


def test_luspo_before_1_10_is_only_expressible_as_the_paper_has_it() -> None:
    config = {"loss_type": "luspo", "importance_sampling_level": "sequence"}
    assert declared(config, "1.9.0").aggregation.kind == "seq-mean-token-sum"
    for more in ({"beta": 0.1}, {"top_entropy_quantile": 0.5}, {"importance_sampling_level": "token"}):
        with pytest.raises(BadObjective, match=r"before 1\.10\.0"):
            declared({**config, **more}, "1.9.0")
    by_token = {"use_vllm": True, "vllm_importance_sampling_mode": "token_mask"}
    with pytest.raises(BadObjective, match=r"before 1\.10\.0"):
        declared({**config, **by_token}, "1.9.0")
    assert declared({**config, "use_vllm": True}, "1.9.0").ratio.corrections[0].level == "product"


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
    assert "2/4 of what" in notes({"gradient_accumulation_steps": 2, "steps_per_generation": 4}, "1.9.0")
    assert "off by it / 4" in notes({"steps_per_generation": 4}, "1.9.0")
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
    inherited = {"gradient_accumulation_steps": fields["gradient_accumulation_steps"]}
    assert result.objective == declared(inherited, trl.__version__, f"{name}Trainer")
    tabled = complete({}, trl.__version__, f"{name}Config")
    assert tabled == {key: fields[key] for key in tabled}


def test_every_declared_objective_survives_a_round_trip() -> None:
    for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo", "sapo", "vespo"):
        objective = declared({"loss_type": loss_type, "beta": 0.1})
        assert from_dict(objective.to_dict()) == objective


def test_unknown_frameworks_and_trainers_name_the_closest() -> None:
    with pytest.raises(UnknownName, match="trl"):
        from_framework("trll", "1.16.0", {})
    with pytest.raises(UnknownName, match="GRPOTrainer"):
        from_framework("trl", "1.16.0", {}, trainer="DPOTrainer")
    assert "trl" in DIALECTS
