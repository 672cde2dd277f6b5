"""AReaL 1.0.4: ``PPOActor._compute_advantages`` with its ``Normalization``, and the actor losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Correction,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import SAPO, PPOClip
from conformance.batch import EVEN, Batch, Kind
from conformance.case import Answer, Case, gradient
from conformance.stubs import bare, replace, stub

ONE = Kind(groups=EVEN)
BASE = Objective(
    baseline=Baseline(kind="group_mean"),
    scale=Scale(kind="group_std", ddof=1, epsilon=1e-5),
    ratio=Ratio(denominator="old"),
    clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
    aggregation=Aggregation(kind="token-mean"),
)
GROUP = {"mean_level": "group", "std_level": "group", "group_size": EVEN[0]}


@cache
def areal() -> SimpleNamespace:
    """The modules that decide."""
    stub("ray", "uvloop", "einops", "torchdata", "colorlog", "numba", "torch_memory_saver")
    bare("areal", "areal.utils", "areal.api", "areal.engine", "areal.engine.fsdp_utils", "areal.infra")
    bare("areal.infra.rpc", "areal.trainer", "areal.trainer.ppo")
    replace("areal.utils.logging", "areal.infra.platforms", "areal.utils.perf_tracer")
    replace("areal.infra.rpc.serialization", "areal.utils.stats_tracker")
    replace("areal.experimental.training_service.controller.controller")
    from areal.api import cli_args
    from areal.trainer.ppo import actor
    from areal.utils import data
    from areal.utils.functional import functional

    return SimpleNamespace(config=cli_args, data=data, functional=functional, actor=actor.PPOActor)


def advantages(batch: Batch, norm: dict[str, Any] | None, options: dict[str, Any]) -> Tensor:
    """Advantage of every token, shape (R, T), from rows of one prompt token and the response."""
    lib = areal()

    def normal(config: dict[str, Any] | None) -> Any:
        return lib.data.Normalization(lib.config.NormConfig(**config)) if config else None

    def after_prompt(values: Tensor) -> Tensor:
        return torch.cat([values.new_zeros(batch.rows, 1), values], 1)

    def before_next(values: Tensor) -> Tensor:
        return torch.cat([values, values.new_zeros(batch.rows, 1)], 1)

    self = SimpleNamespace(
        config=SimpleNamespace(
            overlong_reward_penalty=False, use_decoupled_loss=False, recompute_logprob=False
        ),
        reward_bias=options.get("reward_bias", 0.0),
        reward_scaling=options.get("reward_scaling", 1.0),
        reward_clip=options.get("reward_clip", 20.0),
        reward_norm=normal(norm),
        adv_norm=normal(options.get("adv_norm")),
        kl_ctl=options.get("kl", 0.0),
        kl_estimator=lib.data.KLEstimator(options.get("kl_estimator", "k1")),
        mask_no_eos_with_zero=False,
        discount=1.0,
        gae_lambda=1.0,
    )
    data = {
        "input_ids": torch.zeros(batch.rows, batch.width + 1, dtype=torch.int64),
        "attention_mask": torch.cat([torch.ones(batch.rows, 1).long(), batch.inside.long()], 1),
        "rewards": batch.reward.clone(),
        "loss_mask": after_prompt(batch.weight),
        "logprobs": after_prompt(batch.old),
        "ref_logp": before_next(batch.ref.clone()),
    }
    made: Tensor = lib.actor._compute_advantages(self, data)["advantages"]
    return made[:, : batch.width].double()


def answer(
    norm: dict[str, Any] | None = None,
    rejection: dict[str, Any] | None = None,
    sapo: dict[str, Any] | None = None,
    loss: dict[str, Any] | None = None,
    **options: Any,
) -> Callable[[Batch], Answer]:
    """Gradient of the actor loss; ``rejection``: of the proximal policy against the sampler."""

    def of(batch: Batch) -> Answer:
        lib = areal()
        made = advantages(batch, norm, options)
        sampling = lib.config.RejectionSamplingConfig(**rejection) if rejection else None

        def total(theta: Tensor) -> Tensor:
            if sapo is not None:
                return lib.functional.sapo_loss_fn(theta, batch.old, made, loss_mask=batch.mask, **sapo)[0]
            return lib.functional.ppo_actor_loss_fn(
                theta,
                batch.old,
                batch.sampler,
                made,
                loss_mask=batch.mask,
                rejection_sampling=sampling,
                **{"eps_clip": 0.2, **(loss or {})},
            )[0]

        return Answer(made, gradient(batch, total))

    return of


def case(name: str, objective: Objective, kind: Kind = ONE, **options: Any) -> Case:
    """One set-up; group normalisation unless told otherwise."""
    options = {"norm": GROUP, **options}
    sapo, rejection = options.get("sapo"), options.get("rejection")
    actor = {
        "reward_norm": options["norm"],
        "adv_norm": options.get("adv_norm"),
        "kl_ctl": options.get("kl", 0.0),
        "reward_clip": options.get("reward_clip", 20.0),
        "recompute_logprob": True,
        "use_decoupled_loss": rejection is not None,
        "rejection_sampling": rejection,
        "eps_clip": 0.2,
        **(options.get("loss") or {}),
    }
    if sapo is not None:
        actor |= {"use_sapo_loss": True, "sapo_tau_pos": sapo["tau_pos"], "sapo_tau_neg": sapo["tau_neg"]}
        actor["importance_sampling_level"] = sapo.get("importance_sampling_level", "token")
    config = {"actor": actor}
    return Case("areal", "1.0.4", name, objective, answer(**options), kind=kind, config=config)


def rejected(name: str, correction: Correction, **options: Any) -> Case:
    """Decoupled loss with a correction for staleness."""
    ratio = Ratio(denominator="old", corrections=(correction,))
    return case(f"decoupled, {name}", BASE.replace(ratio=ratio), rejection=options)


LOO = {"mean_level": "group", "mean_leave1out": True, "std_level": None, "group_size": EVEN[0]}
CASES = [
    case("reward norm, group and group", BASE),
    case(
        "reward norm, leave one out",
        BASE.replace(baseline=Baseline(kind="leave_one_out"), scale=Scale()),
        norm=LOO,
    ),
    case(
        "reward norm, biased std",
        BASE.replace(scale=Scale(kind="group_std", ddof=0, epsilon=1e-5)),
        norm={**GROUP, "std_unbiased": False},
    ),
    case(
        "no reward norm, KL in the reward",
        BASE.replace(
            baseline=Baseline(),
            scale=Scale(),
            kl=KL(reward=RewardKL(coefficient=0.1, stage="after_scale", form="to_go")),
        ),
        norm=None,
        kl=0.1,
    ),
    case(
        "group norm, KL in the reward",
        BASE.replace(
            kl=KL(reward=RewardKL(coefficient=0.1, stage="after_scale", form="to_go")),
        ),
        kl=0.1,
    ),
    case(
        "no reward norm, clipped reward, advantages over tokens",
        BASE.replace(
            shaping=Shaping(clip=(-1.0, 1.0)),
            baseline=Baseline(),
            scale=Scale(whiten=Whiten(level="token", ddof=1, epsilon=1e-5)),
        ),
        norm=None,
        reward_clip=1.0,
        adv_norm={"mean_level": "batch", "std_level": "batch"},
    ),
    case(
        "clip higher",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.28)),
        loss={"eps_clip_higher": 0.28},
    ),
    case(
        "dual clip",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=1.5)),
        Kind(groups=EVEN, drift=0.8),
        loss={"c_clip": 1.5},
    ),
    case(
        "gspo",
        BASE.replace(
            ratio=Ratio(denominator="old", level="sequence"),
            clip=PPOClip(epsilon_low=0.05, epsilon_high=0.06),
        ),
        loss={"importance_sampling_level": "sequence", "eps_clip": 0.05, "eps_clip_higher": 0.06},
    ),
    case(
        "sapo",
        BASE.replace(clip=SAPO(tau_positive=1.0, tau_negative=1.05)),
        sapo={"tau_pos": 1.0, "tau_neg": 1.05},
    ),
    case(
        "sapo, ratio of the response",
        BASE.replace(
            ratio=Ratio(denominator="old", level="sequence"), clip=SAPO(tau_positive=1.0, tau_negative=1.05)
        ),
        sapo={"tau_pos": 1.0, "tau_neg": 1.05, "importance_sampling_level": "sequence"},
    ),
    rejected("token ratio, masked", Correction(action="mask", low=0.8, high=1.3), upper=1.3, lower=0.8),
    rejected("token ratio, clamped", Correction(low=0.8, high=1.3), action="clamp", upper=1.3, lower=0.8),
    rejected(
        "response ratio, masked",
        Correction(action="mask", level="sequence", low=0.95, high=1.05),
        level="sequence",
        upper=1.05,
        lower=0.95,
    ),
    rejected(
        "response ratio, clamped",
        Correction(level="sequence", low=0.95, high=1.05),
        level="sequence",
        action="clamp",
        upper=1.05,
        lower=0.95,
    ),
]
