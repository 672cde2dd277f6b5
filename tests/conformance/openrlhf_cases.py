"""OpenRLHF 0.11.2: ``compute_advantages_and_returns``, ``PolicyLoss`` and the KL of both places."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Correction,
    LossKL,
    Objective,
    Overlong,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import PPOClip
from conformance.batch import EVEN, Batch, Kind
from conformance.case import Answer, Case, gradient
from conformance.stubs import bare, replace, stub

ONE = Kind(groups=EVEN)
MEAN = Aggregation(kind="token-mean")
ROWS = Aggregation(kind="seq-mean-token-mean", epsilon=1e-8, rows="nonempty")
STD = Scale(kind="group_std", ddof=1, epsilon=1e-9)
WHITEN = Whiten(level="token", ddof=0, epsilon=1e-8, epsilon_in="floor")
CENTRED = Baseline(kind="group_mean")
BASE = Objective(
    baseline=CENTRED,
    scale=STD,
    ratio=Ratio(denominator="old", clamp=20.0),
    clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
    aggregation=MEAN,
)
OFF = BASE.replace(scale=Scale())
SEQUENCE = Ratio(denominator="old", level="sequence")


@cache
def openrlhf() -> SimpleNamespace:
    """The modules that decide."""
    stub("ray", "deepspeed", "flash_attn", "vllm", "ring_flash_attn", "pylatexenc", "optree")
    bare("openrlhf", "openrlhf.models", "openrlhf.trainer", "openrlhf.trainer.ppo_utils")
    replace("openrlhf.trainer.ray", "openrlhf.trainer.ray.launcher")
    from openrlhf.models import loss, utils
    from openrlhf.trainer.ppo_utils import experience_maker

    return SimpleNamespace(loss=loss, utils=utils, maker=experience_maker.RemoteExperienceMaker)


def advantages(batch: Batch, options: dict[str, Any]) -> Tensor:
    """Advantage of every token, shape (R, T)."""
    lib = openrlhf()
    kl = lib.utils.compute_approx_kl(batch.old, batch.ref, kl_estimator=options.get("kl_estimator", "k1"))
    penalised = options.get("overlong")
    args = SimpleNamespace(
        rollout=SimpleNamespace(n_samples_per_prompt=batch.kind.groups[0], max_new_tokens=batch.width),
        algo=SimpleNamespace(
            advantage=SimpleNamespace(
                estimator=options["estimator"],
                gamma=options.get("gamma", 1.0),
                lambd=options.get("lambd", 1.0),
                no_std_norm=options.get("no_std_norm", False),
            )
        ),
        reward=SimpleNamespace(
            clip_range=options.get("clip_range", (-10.0, 10.0)),
            overlong_buffer_len=penalised,
            overlong_penalty_factor=0.5,
            stop_properly_penalty_coef=None,
        ),
    )
    experience = SimpleNamespace(
        rewards=batch.reward.clone(),
        index=list(range(batch.rows)),
        kl=kl * batch.weight,
        action_mask=batch.weight,
        values=batch.value,
        info={},
        response_length=batch.length,
        truncated=None,
    )
    self = SimpleNamespace(
        strategy=SimpleNamespace(args=args),
        kl_ctl=SimpleNamespace(value=options.get("kl", 0.0)),
        advantage_estimator=options["estimator"],
    )
    for name in ("get_cumulative_returns", "get_advantages_and_returns"):
        setattr(self, name, getattr(lib.maker, name).__get__(self))
    lib.maker.compute_advantages_and_returns(self, [experience])
    made: Tensor = experience.advantages
    return made.double()


def answer(
    estimator: str = "group_norm",
    loss_kl: tuple[str, float, bool] | None = None,
    loss: dict[str, Any] | None = None,
    **options: Any,
) -> Callable[[Batch], Answer]:
    """Gradient of ``PolicyLoss`` plus the KL in the loss: estimator, coefficient, unbiased gradient."""

    def of(batch: Batch) -> Answer:
        lib = openrlhf()
        made = advantages(batch, {"estimator": estimator, **options})
        policy = lib.loss.PolicyLoss(**(loss or {}))

        def total(theta: Tensor) -> Tensor:
            found = policy(theta, batch.old, made, batch.weight, batch.sampler)[0]
            if loss_kl is not None:
                kl = lib.utils.compute_approx_kl(
                    theta, batch.ref, batch.old, kl_estimator=loss_kl[0], unbiased_gradient=loss_kl[2]
                )
                found = found + loss_kl[1] * lib.loss.aggregate_loss(kl, batch.weight)
            return found

        return Answer(made, gradient(batch, total))

    return of


def case(name: str, objective: Objective, kind: Kind = ONE, **options: Any) -> Case:
    """One set-up, with the options that choose it."""
    loss, pull = dict(options.get("loss") or {}), options.get("loss_kl")
    advantage = {"estimator": options.get("estimator", "group_norm")}
    advantage |= {key: options[key] for key in ("gamma", "lambd") if key in options}
    advantage |= {key: value for key, value in loss.items() if key.startswith("is_correction")}
    config = {
        "algo": {
            "advantage": advantage,
            "kl": {
                "init_coef": pull[1] if pull else options.get("kl", 0.0),
                "estimator": pull[0] if pull else "k1",
                "use_loss": pull is not None,
                "unbiased_gradient": bool(pull and pull[2]),
            },
        },
        "actor": {
            "eps_clip_low_high": [loss.get("clip_eps_low", 0.2), loss.get("clip_eps_high", 0.2)],
            "dual_clip": loss.get("dual_clip"),
            "policy_loss_type": loss.get("policy_loss_type", "ppo"),
            "loss_agg_mode": "token-mean" if loss.get("token_level_loss", True) else "seq-mean-token-mean",
        },
        "reward": {
            "clip_range": list(options.get("clip_range", (-10.0, 10.0))),
            "overlong_buffer_len": options.get("overlong"),
            "overlong_penalty_factor": 0.5,
        },
        "rollout": {"n_samples_per_prompt": kind.groups[0], "max_new_tokens": kind.width},
    }
    return Case("openrlhf", "0.11.2", name, objective, answer(**options), kind=kind, config=config)


def corrected(name: str, corrections: tuple[Correction, ...], **options: Any) -> Case:
    """Correction for the engine's log-probs, on GRPO advantages."""
    ratio = Ratio(denominator="old", clamp=20.0, corrections=corrections)
    return case(f"correction, {name}", BASE.replace(ratio=ratio), loss=options)


def pulled(kind: str, *, unbiased: bool = False, batch: Kind = ONE) -> Case:
    """A KL in the loss."""
    how: dict[str, Any] = (
        {"gradient": "straight_through", "ratio_cap": 10.0} if unbiased else {"output_clamp": 10.0}
    )
    return case(
        f"KL in the loss, {kind}" + (", unbiased gradient" if unbiased else "") + (", far" * (batch != ONE)),
        BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, estimator=kind, **how))),
        batch,
        loss_kl=(kind, 0.3, unbiased),
    )


FAR = Kind(groups=EVEN, far_ref=3.0)
TO_GO = KL(reward=RewardKL(coefficient=0.1, stage="after_scale", form="to_go"))

CASES = [
    case("group_norm", BASE),
    case("rloo", OFF.replace(baseline=Baseline(kind="leave_one_out")), estimator="rloo"),
    case("dr_grpo", OFF, estimator="dr_grpo"),
    case("flash_reinforce", OFF.replace(baseline=Baseline(kind="batch_mean")), estimator="flash_reinforce"),
    case("reinforce_baseline", OFF.replace(scale=Scale(whiten=WHITEN)), estimator="reinforce_baseline"),
    case(
        "reinforce",
        OFF.replace(baseline=Baseline(), scale=Scale(whiten=WHITEN)),
        estimator="reinforce",
    ),
    case(
        "gae",
        OFF.replace(baseline=Baseline(kind="gae", gamma=0.99, lam=0.9), scale=Scale(whiten=WHITEN)),
        Kind(groups=EVEN, holes=False),
        estimator="gae",
        gamma=0.99,
        lambd=0.9,
    ),
    case(
        "group_norm, clip of the finished advantage",
        BASE.replace(scale=Scale(kind="group_std", ddof=1, epsilon=1e-9, reward_clip=(-0.7, 1.2))),
        clip_range=(-0.7, 1.2),
    ),
    case(
        "group_norm, clip and KL in the reward",
        BASE.replace(scale=Scale(kind="group_std", ddof=1, epsilon=1e-9, reward_clip=(-0.7, 1.2)), kl=TO_GO),
        clip_range=(-0.7, 1.2),
        kl=0.1,
    ),
    case(
        "reinforce_baseline, clip before whitening",
        OFF.replace(scale=Scale(reward_clip=(-0.4, 0.7), whiten=WHITEN)),
        estimator="reinforce_baseline",
        clip_range=(-0.4, 0.7),
    ),
    case("group_norm, KL in the reward", BASE.replace(kl=TO_GO), kl=0.1),
    case(
        "rloo, KL in the reward",
        OFF.replace(baseline=Baseline(kind="leave_one_out"), kl=TO_GO),
        estimator="rloo",
        kl=0.1,
    ),
    case(
        "reinforce_baseline, KL in the reward",
        OFF.replace(scale=Scale(whiten=WHITEN), kl=TO_GO),
        estimator="reinforce_baseline",
        kl=0.1,
    ),
    case(
        "group_norm, overlong penalty",
        BASE.replace(shaping=Shaping(overlong=Overlong(max_length=11, cache=5, penalty=0.5))),
        overlong=5,
    ),
    case("row mean", BASE.replace(aggregation=ROWS), loss={"token_level_loss": False}),
    case(
        "row mean, a row without loss tokens",
        BASE.replace(aggregation=ROWS),
        Kind(groups=EVEN, empty_row=True),
        loss={"token_level_loss": False},
    ),
    case(
        "clip higher",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.28)),
        loss={"clip_eps_high": 0.28},
    ),
    case(
        "dual clip",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=1.5)),
        Kind(groups=EVEN, drift=0.8),
        loss={"dual_clip": 1.5},
    ),
    case("log-ratio beyond its clamp", BASE, Kind(groups=EVEN, drift=9.0)),
    case(
        "gspo",
        BASE.replace(ratio=SEQUENCE, clip=PPOClip(epsilon_low=0.05, epsilon_high=0.06), aggregation=ROWS),
        loss={"policy_loss_type": "gspo", "clip_eps_low": 0.05, "clip_eps_high": 0.06},
    ),
    case(
        "gspo, corrected: ratio to the sampler",
        BASE.replace(
            ratio=Ratio(denominator="sampler", level="sequence"),
            clip=PPOClip(epsilon_low=0.05, epsilon_high=0.06),
            aggregation=ROWS,
        ),
        loss={
            "policy_loss_type": "gspo",
            "clip_eps_low": 0.05,
            "clip_eps_high": 0.06,
            "is_correction_level": "token",
        },
    ),
    corrected(
        "token, masked",
        (Correction(action="mask", low=0.8, high=1.3),),
        is_correction_level="token",
        is_correction_threshold=(0.8, 1.3),
    ),
    corrected(
        "token, clamped",
        (Correction(low=0.8, high=1.3),),
        is_correction_level="token",
        is_correction_mode="clip",
        is_correction_threshold=(0.8, 1.3),
    ),
    corrected(
        "response mean gates, token weights",
        (Correction(action="gate", level="sequence", low=0.95, high=1.05), Correction()),
        is_correction_level="seq",
        is_correction_threshold=(0.95, 1.05),
    ),
    pulled("k1"),
    pulled("k2"),
    pulled("k3"),
    pulled("k3", batch=FAR),
    pulled("k1", unbiased=True),
    pulled("k3", unbiased=True),
    pulled("k3", unbiased=True, batch=FAR),
    case(
        "row mean with a KL over tokens",
        BASE.replace(
            aggregation=ROWS,
            kl=KL(loss=LossKL(coefficient=0.3, output_clamp=10.0, aggregation=MEAN)),
        ),
        loss={"token_level_loss": False},
        loss_kl=("k3", 0.3, False),
    ),
]
