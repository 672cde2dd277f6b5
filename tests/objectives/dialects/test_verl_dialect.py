"""The verl dialect: estimators, KL, filters, keys and versions; a row quotes what it holds."""

from __future__ import annotations

from typing import Any

import pytest
from verl_cases import declared

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework
from audit.objectives.dialects.verl_config import flat
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
    Whiten,
    from_dict,
)
from audit.objectives.surrogates import (
    PPOClip,
)

WHITEN = Whiten(level="token", ddof=1, epsilon=1e-8, epsilon_in="variance")
GROUP_STD = Scale(kind="group_std", ddof=1, epsilon=1e-6)
VERSIONS = (
    *("0.1", "0.2.0", "0.3.0.post1", "0.4.0", "0.4.1", "0.5.0", "0.6.0", "0.6.1", "0.7.0", "0.7.1"),
    *("0.8.0", "0.9.0", "0.9.1"),
)


def test_the_defaults_of_0_9_1_are_ppo_with_a_critic() -> None:
    assert from_framework("verl", "0.9.1", {}).objective == Objective(
        name="verl-gae-vanilla",
        baseline=Baseline(kind="gae"),
        scale=Scale(whiten=WHITEN),
        ratio=Ratio(denominator="old", clamp=20.0),
        clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=3.0),
        aggregation=Aggregation(kind="token-mean"),
    )


@pytest.mark.parametrize(
    ("cell", "estimator", "baseline", "scale"),
    [
        ("grpo: mean incl. self, ddof 1, +1e-6", "grpo", "group_mean/raw", GROUP_STD),
        ("grpo_vectorized: the same", "grpo_vectorized", "group_mean/raw", GROUP_STD),
        ("grpo_passk: best minus second best", "grpo_passk", "runner_up/zero", GROUP_STD),
        ("rloo: LOO; G = 1 raw reward", "rloo", "leave_one_out/raw", Scale()),
        ("rloo_vectorized: G = 1 gives 0", "rloo_vectorized", "leave_one_out/zero", Scale()),
        ("opo: length-weighted; G = 1 raw reward", "opo", "length_weighted/raw", Scale()),
        ("remax: greedy", "remax", "greedy/zero", Scale()),
        ("gpg: mean × B / #nonzero rewards", "gpg", "group_mean/raw", Scale(kind="nonzero_share")),
        ("reinforce_plus_plus: token whiten", "reinforce_plus_plus", "none/zero", Scale(whiten=WHITEN)),
        (
            "rf++_baseline: mean, then token whiten, 1e-8 in rsqrt",
            "reinforce_plus_plus_baseline",
            "group_mean/raw",
            Scale(whiten=WHITEN),
        ),
        ("default is gae, whitened", "gae", "gae/zero", Scale(whiten=WHITEN)),
    ],
)
def test_an_estimator_is_a_baseline_and_a_scale(
    cell: str, estimator: str, baseline: str, scale: Scale
) -> None:
    objective = declared({"algorithm.adv_estimator": estimator})
    assert f"{objective.baseline.kind}/{objective.baseline.singleton}" == baseline, cell
    assert objective.scale == scale, cell
    assert objective.shaping == Shaping(), cell


def test_the_std_of_grpo_can_be_switched_off() -> None:
    assert declared({"algorithm.norm_adv_by_std_in_grpo": False}).scale == Scale()
    passk = {"algorithm.adv_estimator": "grpo_passk", "algorithm.norm_adv_by_std_in_grpo": False}
    assert declared(passk).scale == Scale()


def test_gdpo_whitens_the_weighted_components_over_tokens() -> None:
    config = {
        "algorithm": {
            "adv_estimator": "gdpo",
            "gdpo_reward_keys": ["accuracy", "format"],
            "gdpo_reward_weights": [1, 0.5],
            "use_kl_in_reward": True,
        }
    }
    found = from_framework("verl", "0.9.1", config)
    assert found.objective.shaping == Shaping(per_component=True, weights={"accuracy": 1.0, "format": 0.5})
    assert found.objective.scale == Scale(kind="group_std", ddof=1, epsilon=1e-6, whiten=WHITEN)
    assert found.objective.kl == KL()
    assert "does not reach gdpo" in found.notes[0]
    with pytest.raises(BadObjective, match=r"needs algorithm.gdpo_reward_keys"):
        declared({"algorithm.adv_estimator": "gdpo"})


def test_gae_takes_gamma_and_lambda() -> None:
    config = {"algorithm.adv_estimator": "gae", "algorithm.gamma": 0.99, "algorithm.lam": 0.95}
    assert declared(config).baseline == Baseline(kind="gae", gamma=0.99, lam=0.95)


@pytest.mark.parametrize(
    ("estimator", "before", "since"),
    [
        ("grpo", "0.1", "0.2.0"),
        ("rloo", "0.2.0", "0.3.0"),
        ("opo", "0.3.0", "0.4.0"),
        ("grpo_passk", "0.3.0", "0.4.0"),
        ("reinforce_plus_plus_baseline", "0.3.0", "0.4.0"),
        ("gpg", "0.4.1", "0.5.0"),
        ("rloo_vectorized", "0.5.0", "0.6.0"),
        ("grpo_vectorized", "0.5.0", "0.6.0"),
    ],
)
def test_an_estimator_came_with_a_version(estimator: str, before: str, since: str) -> None:
    config = {"algorithm.adv_estimator": estimator}
    with pytest.raises(
        BadObjective, match=f"has no algorithm.adv_estimator {estimator!r}: it came with {since}"
    ):
        declared(config, before)
    declared(config, since)


@pytest.mark.parametrize(
    ("cell", "version", "name", "kl"),
    [
        ("kl = k1", "0.9.1", "kl", LossKL(coefficient=0.01, estimator="k1")),
        ("mse = k2", "0.9.1", "mse", LossKL(coefficient=0.01, estimator="k2")),
        ("abs", "0.9.1", "abs", LossKL(coefficient=0.01, estimator="abs")),
        (
            "k3: input ±20, output ±10",
            "0.9.1",
            "k3",
            LossKL(coefficient=0.01, estimator="k3", input_clamp=20.0, output_clamp=10.0),
        ),
        (
            "no input clamp before 0.4.1",
            "0.4.0",
            "low_var_kl",
            LossKL(coefficient=0.01, estimator="k3", output_clamp=10.0),
        ),
        (
            "k3+: straight-through, since 0.8",
            "0.8.0",
            "k3+",
            LossKL(coefficient=0.01, estimator="k3", gradient="straight_through"),
        ),
        (
            "k1+: straight-through, since 0.8",
            "0.9.1",
            "kl+",
            LossKL(coefficient=0.01, estimator="k1", gradient="straight_through"),
        ),
    ],
)
def test_the_kl_in_the_loss(cell: str, version: str, name: str, kl: LossKL) -> None:
    found = declared({}, version, use_kl_loss=True, kl_loss_coef=0.01, kl_loss_type=name)
    assert found.kl == KL(loss=kl), cell
    assert declared({}, version, kl_loss_coef=0.01).kl.loss is None, "use_kl_loss False"


def test_estimators_with_a_plus_raised_before_0_8() -> None:
    with pytest.raises(BadObjective, match=r"NotImplementedError before 0.8.0"):
        declared({}, "0.7.1", use_kl_loss=True, kl_loss_type="k3+")
    for name, version in (("full", "0.9.1"), ("k3", "0.3.0"), ("k4", "0.9.1")):
        with pytest.raises(BadObjective, match="not implemented in verl, or unknown"):
            declared({}, version, use_kl_loss=True, kl_loss_type=name)


@pytest.mark.parametrize(
    ("cell", "estimator", "kl"),
    [
        ("inside mean and std", "grpo", RewardKL(coefficient=0.001)),
        ("inside the leave-one-out mean", "rloo", RewardKL(coefficient=0.001)),
        (
            "reward-to-go",
            "reinforce_plus_plus",
            RewardKL(coefficient=0.001, stage="after_scale", form="to_go"),
        ),
        ("returns", "remax", RewardKL(coefficient=0.001, stage="after_scale", form="to_go")),
        ("token rewards of gae", "gae", RewardKL(coefficient=0.001, stage="after_scale", form="token")),
    ],
)
def test_the_kl_in_the_reward(cell: str, estimator: str, kl: RewardKL) -> None:
    config = {"algorithm.adv_estimator": estimator}
    assert declared({**config, "algorithm.use_kl_in_reward": True}).kl == KL(reward=kl), cell
    assert declared(config).kl == KL(), "option, off"


def test_before_0_4_the_kl_was_in_the_reward_unless_in_the_loss() -> None:
    assert declared({}, "0.3.0").kl == KL(reward=RewardKL(coefficient=0.001))
    assert declared({}, "0.3.0", use_kl_loss=True).kl == KL(loss=LossKL(coefficient=0.001, output_clamp=10.0))


def test_an_adaptive_coefficient_is_refused() -> None:
    config = {"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl": {"type": "adaptive"}}
    with pytest.raises(BadObjective, match=r"kl_ctrl.type='adaptive'"):
        declared(config)


def test_dapo_drops_groups_and_pays_its_penalty_in_the_score() -> None:
    config = {
        "algorithm": {"adv_estimator": "grpo", "filter_groups": {"enable": True, "metric": "acc"}},
        "actor_rollout_ref": {"actor": {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28}},
        "reward_model": {
            "reward_manager": "dapo",
            "reward_kwargs": {
                "overlong_buffer_cfg": {"enable": True, "len": 4096, "penalty_factor": 1.0, "log": False},
                "max_resp_len": 20480,
            },
        },
    }
    found = from_framework("verl", "0.9.1", config)
    assert found.objective.filter == Filter(dynamic_sampling=True)
    assert found.objective.clip == PPOClip(epsilon_low=0.2, epsilon_high=0.28, dual=3.0)
    assert found.objective.shaping == Shaping()
    notes = " ".join(found.notes)
    assert "the last 4096 tokens, up to 1.0 and beyond, without a cap" in notes
    assert "all have one 'acc'" in notes
    assert declared().filter == Filter()  # filter_groups off
    config["algorithm"]["filter_groups"]["metric"] = "seq_reward"
    recipe = from_framework("verl", "0.5.0", config)
    assert "read by DAPO's own trainer" in " ".join(recipe.notes)
    assert "one 'seq_reward'" not in " ".join(recipe.notes)


def test_nested_dotted_and_override_keys_are_one_config() -> None:
    nested = {
        "actor_rollout_ref": {"actor": {"use_kl_loss": True, "policy_loss": {"loss_mode": "gspo"}}},
        "algorithm": {"adv_estimator": "grpo", "kl_ctrl": {}},
    }
    dotted = {
        "++actor_rollout_ref.actor.use_kl_loss": True,
        "+actor_rollout_ref.actor.policy_loss.loss_mode": "gspo",
        "algorithm.adv_estimator": "grpo",
        "actor_rollout_ref.actor.clip_ratio": "${oc.select:nothing}",
    }
    mixed = {"actor": nested["actor_rollout_ref"]["actor"], "algorithm.adv_estimator": "grpo"}
    a, b, c = (from_framework("verl", "0.9.1", config) for config in (nested, dotted, mixed))
    assert a == b == c
    assert flat({"actor_rollout_ref": {"rollout": {"n": 8}}}) == {"rollout.n": 8}


def test_unknown_keys_are_reported_and_foreign_ones_said_to_do_nothing() -> None:
    config = {
        "actor_rollout_ref.actor.kl_los_coef": 1.0,
        "actor_rollout_ref.actor.grad_clip": 1.0,
        "actor_rollout_ref.actor.optim.clip_grad": 1.0,
        "actor_rollout_ref.actor.strategy": "fsdp",
        "algorithm.overlong_penalty": 1.0,
        "data.reward_fn_key": "x",
    }
    found = from_framework("verl", "0.9.1", config)
    assert found.unknown == ("actor.kl_los_coef", "algorithm.overlong_penalty")
    old = from_framework("verl", "0.5.0", {"actor_rollout_ref.actor.tau_pos": 2.0})
    assert old.notes == ("actor.tau_pos is not an option of verl 0.5.0: it has no effect.",)


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"actor_rollout_ref.actor.entropy_coeff": 0.001}, "actor.entropy_coeff=0.001 is not expressible"),
        ({"algorithm.use_pf_ppo": True}, "algorithm.use_pf_ppo=True"),
        ({"algorithm.adv_estimator": "optimal_token_baseline"}, "adv_estimator='optimal_token_baseline'"),
        ({"algorithm.adv_estimator": "tir_optimal_token_baseline"}, "tir_optimal_token_baseline"),
        ({"algorithm.adv_estimator": "grppo"}, "no algorithm.adv_estimator 'grppo'. Did you mean 'grpo'"),
        (
            {"algorithm.adv_estimator": "reinforce_plus_plus", "algorithm.gamma": 0.9},
            "algorithm.gamma=0.9 with reinforce_plus_plus",
        ),
        ({"actor_rollout_ref.actor.policy_loss.loss_mode": "sppo"}, "no actor.policy_loss.loss_mode 'sppo'"),
    ],
)
def test_what_is_not_expressible_is_refused_by_name(config: dict[str, Any], match: str) -> None:
    with pytest.raises(BadObjective, match=match):
        declared(config)


def test_the_entropy_bonus_was_a_default_before_0_4() -> None:
    with pytest.raises(BadObjective, match=r"default was 0.001 before 0.4.0"):
        from_framework("verl", "0.3.0", {})
    assert from_framework("verl", "0.4.0", {}).objective.clip.kind == "ppo"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_read_gives_an_objective_that_survives_a_round_trip(version: str) -> None:
    objective = from_framework("verl", version, {"actor_rollout_ref.actor.entropy_coeff": 0}).objective
    assert from_dict(objective.to_dict()) == objective
    assert objective.baseline.kind == "gae"


def test_versions_outside_those_read() -> None:
    with pytest.raises(BadObjective, match=r"known from 0.1 on"):
        declared({}, "0.0.9")
    assert "newer than the last version read" in from_framework("verl", "0.10.0", {}).notes[0]
