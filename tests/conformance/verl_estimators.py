"""verl 0.9.1: every advantage estimator, each with the token mean of PPO's clipped loss."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import PPOClip
from conformance.batch import Batch, Kind
from conformance.case import Case
from conformance.verl_calls import Estimator, answer, estimator, verl

FRAMEWORK, VERSION = "verl", "0.9.1"

RATIO = Ratio(denominator="old", clamp=20.0)
CLIP = PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=3.0)
MEAN = Aggregation(kind="token-mean")
STD = Scale(kind="group_std", ddof=1, epsilon=1e-6)
WHITEN = Whiten(level="token", ddof=1, epsilon=1e-8, epsilon_in="variance")
CENTRED = Baseline(kind="group_mean", singleton="raw")
LONE = Kind(groups=(4, 1, 6, 3, 5))
"""With a group of one response, whose advantage is the raw reward."""
OFF = Objective(ratio=RATIO, clip=CLIP, aggregation=MEAN)


def paying_kl(name: str, coefficient: float, kind: str = "kl", **options: object) -> Estimator:
    """The estimator on rewards minus a KL of every token, as ``apply_kl_penalty`` forms them."""

    def advantages(batch: Batch) -> Tensor:
        lib = verl()
        penalty = lib.algos.kl_penalty(batch.old, batch.ref, kind) * batch.weight
        given = {"index": batch.group.numpy(), **options}
        if name == "gae":
            given = {**options, "values": batch.value}
        return lib.algos.get_adv_estimator_fn(name)(
            token_level_rewards=batch.token_rewards() - coefficient * penalty,
            response_mask=batch.weight,
            **given,
        )[0]

    return advantages


def gae(gamma: float, lam: float) -> Estimator:
    """GAE on critic values."""
    return lambda batch: verl().algos.get_adv_estimator_fn("gae")(
        batch.token_rewards(), batch.value, batch.weight, gamma, lam
    )[0]


def remax(batch: Batch) -> Tensor:
    """Greedy reward as baseline."""
    return verl().algos.get_adv_estimator_fn("remax")(
        batch.token_rewards(), batch.greedy_reward[batch.group], batch.weight
    )[0]


def gdpo(batch: Batch) -> Tensor:
    """Components from the batch's own columns; verl computes this in float32."""
    prompt = torch.zeros(batch.rows, 2, dtype=torch.int64)
    attention = torch.cat([torch.ones(batch.rows, 2, dtype=torch.int64), batch.inside.long()], 1)
    return verl().algos.get_adv_estimator_fn("gdpo")(
        batch.token_rewards(),
        batch.weight,
        batch.group.numpy(),
        config={"gdpo_reward_keys": ["right", "form"], "gdpo_reward_weights": [1.0, 0.3]},
        non_tensor_batch={name: values.numpy() for name, values in batch.components.items()},
        batch={"prompts": prompt, "attention_mask": attention},
    )[0]


def case(name: str, advantages: Callable[[Batch], Tensor], objective: Objective, **options: object) -> Case:
    """An estimator under the default loss."""
    algorithm = options.pop("algorithm", {})
    config = {
        "algorithm": {"adv_estimator": name.split(",", maxsplit=1)[0], **algorithm},
        "actor_rollout_ref": {"actor": {}, "rollout": {"n": 4}},
    }
    return Case(
        FRAMEWORK,
        VERSION,
        name,
        objective,
        answer(advantages),
        config=options.pop("config", config),
        **options,
    )


ONE = SimpleNamespace(gamma=1.0)

CASES = [
    case("grpo", estimator("grpo"), OFF.replace(baseline=CENTRED, scale=STD), kind=LONE),
    case(
        "grpo, no std",
        estimator("grpo", norm_adv_by_std_in_grpo=False),
        OFF.replace(baseline=CENTRED),
        kind=LONE,
        algorithm={"norm_adv_by_std_in_grpo": False},
    ),
    case(
        "grpo_vectorized",
        estimator("grpo_vectorized"),
        OFF.replace(baseline=CENTRED, scale=STD),
    ),
    case(
        "rloo",
        estimator("rloo"),
        OFF.replace(baseline=Baseline(kind="leave_one_out", singleton="raw")),
        kind=LONE,
    ),
    case(
        "rloo_vectorized",
        estimator("rloo_vectorized"),
        OFF.replace(baseline=Baseline(kind="leave_one_out")),
        kind=LONE,
    ),
    case(
        "opo",
        estimator("opo"),
        OFF.replace(baseline=Baseline(kind="length_weighted", singleton="raw")),
        kind=LONE,
    ),
    case("remax", remax, OFF.replace(baseline=Baseline(kind="greedy"))),
    case(
        "gpg",
        estimator("gpg"),
        OFF.replace(baseline=CENTRED, scale=Scale(kind="nonzero_share")),
        kind=LONE,
    ),
    case(
        "reinforce_plus_plus",
        estimator("reinforce_plus_plus", config=ONE),
        OFF.replace(scale=Scale(whiten=WHITEN)),
        kind=LONE,
    ),
    case(
        "reinforce_plus_plus, KL in the reward",
        paying_kl("reinforce_plus_plus", 0.1, config=ONE),
        OFF.replace(
            scale=Scale(whiten=WHITEN),
            kl=KL(reward=RewardKL(coefficient=0.1, stage="after_scale", form="to_go")),
        ),
        algorithm={"use_kl_in_reward": True, "kl_penalty": "kl", "kl_ctrl": {"kl_coef": 0.1}},
    ),
    case(
        "reinforce_plus_plus_baseline",
        estimator("reinforce_plus_plus_baseline"),
        OFF.replace(baseline=CENTRED, scale=Scale(whiten=WHITEN)),
        kind=LONE,
    ),
    case(
        "grpo_passk",
        estimator("grpo_passk", config={"norm_adv_by_std_in_grpo": True}),
        OFF.replace(baseline=Baseline(kind="runner_up"), scale=STD),
    ),
    case(
        "grpo_passk, no std",
        estimator("grpo_passk", config={"norm_adv_by_std_in_grpo": False}),
        OFF.replace(baseline=Baseline(kind="runner_up")),
        algorithm={"norm_adv_by_std_in_grpo": False},
    ),
    case(
        "gdpo",
        gdpo,
        OFF.replace(
            shaping=Shaping(weights={"right": 1.0, "form": 0.3}, per_component=True),
            baseline=CENTRED,
            scale=Scale(kind="group_std", ddof=1, epsilon=1e-6, whiten=WHITEN),
        ),
        precision="float32",
        algorithm={"gdpo_reward_keys": ["right", "form"], "gdpo_reward_weights": [1.0, 0.3]},
    ),
    case(
        "gae",
        gae(1.0, 1.0),
        OFF.replace(baseline=Baseline(kind="gae"), scale=Scale(whiten=WHITEN)),
    ),
    case(
        "gae, gamma 0.99, lambda 0.9",
        gae(0.99, 0.9),
        OFF.replace(baseline=Baseline(kind="gae", gamma=0.99, lam=0.9), scale=Scale(whiten=WHITEN)),
        algorithm={"gamma": 0.99, "lam": 0.9},
    ),
    case(
        "gae, KL in the reward",
        paying_kl("gae", 0.1, gamma=1.0, lam=0.95),
        OFF.replace(
            baseline=Baseline(kind="gae", lam=0.95),
            scale=Scale(whiten=WHITEN),
            kl=KL(reward=RewardKL(coefficient=0.1, stage="after_scale", form="token")),
        ),
        algorithm={
            "lam": 0.95,
            "use_kl_in_reward": True,
            "kl_penalty": "kl",
            "kl_ctrl": {"kl_coef": 0.1},
        },
    ),
    case(
        "grpo, KL in the reward",
        paying_kl("grpo", 0.1),
        OFF.replace(baseline=CENTRED, scale=STD, kl=KL(reward=RewardKL(coefficient=0.1))),
        algorithm={"use_kl_in_reward": True, "kl_penalty": "kl", "kl_ctrl": {"kl_coef": 0.1}},
    ),
    case(
        "grpo, k3 in the reward",
        paying_kl("grpo", 0.1, "low_var_kl"),
        OFF.replace(baseline=CENTRED, scale=STD, kl=KL(reward=RewardKL(coefficient=0.1, estimator="k3"))),
        algorithm={"use_kl_in_reward": True, "kl_penalty": "low_var_kl", "kl_ctrl": {"kl_coef": 0.1}},
    ),
]
