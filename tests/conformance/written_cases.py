"""Frameworks without a package that installs alone: written down from their source and differentiated.

prime-rl 559b44772 (0.8.0), slime 624b824a8 (0.3.1), open-instruct e6c3044aa (0.3.0), tinker-cookbook 0.6.1
(whose loss runs on a service: from its documentation), oat c1a074c32 (0.2.3), ROLL 8eb27cc2d (0.3.0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

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
)
from audit.objectives.surrogates import (
    DPPO,
    CISPOClip,
    NoClip,
    PPOClip,
    ProbabilityMask,
)
from conformance.batch import EVEN, Batch, Kind
from conformance.case import Case
from conformance.written import (
    answer,
    bounded,
    by_row,
    by_token,
    clipped,
    groups,
    k3,
    log_mean,
    standardised,
)

ONE = Kind(groups=EVEN)
MEAN = Aggregation(kind="token-mean")
ROWS = Aggregation(kind="seq-mean-token-mean")
OLD = Ratio(denominator="old")
CENTRED = Objective(
    baseline=Baseline(kind="group_mean"),
    ratio=OLD,
    clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
    aggregation=MEAN,
)
Loss = Callable[[Batch, Tensor, Tensor], Tensor]
Estimator = Callable[[Batch], Tensor]


def centred(batch: Batch) -> Tensor:
    """Reward minus the group's mean."""
    return standardised(batch.reward, batch, ddof=None)


def divided(ddof: int, epsilon: float) -> Estimator:
    """And over the group's std."""
    return lambda batch: standardised(batch.reward, batch, ddof=ddof, epsilon=epsilon)


def rho(batch: Batch, theta: Tensor) -> Tensor:
    """Ratio to the recomputed policy."""
    return (theta - batch.old).exp()


def kappa(batch: Batch) -> Tensor:
    """Ratio of the recomputed policy to the sampler."""
    return (batch.old - batch.sampler).exp()


def case(
    framework: str,
    version: str,
    name: str,
    objective: Objective,
    advantages: Estimator,
    loss: Loss,
    config: dict[str, Any] | None,
    kind: Kind = ONE,
) -> Case:
    """One set-up."""
    theirs = answer(advantages, loss)
    return Case(framework, version, name, objective, theirs, "autograd", kind=kind, config=config)


# prime-rl: the ratio is to the sampler, and a squared log-ratio acts on every loss token.


def prime(batch: Batch, theta: Tensor, advantage: Tensor, keep: Tensor) -> Tensor:
    """-keep A rho + kl_tau log rho squared, over the tokens of rows with an advantage."""
    log = theta - batch.sampler
    values = -keep * advantage * log.exp() + 0.3 * log.square()
    return by_token(values, batch.weight * (advantage != 0))


def prime_default(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """DPPO's mask on probabilities."""
    moved = (theta.exp() - batch.sampler.exp()).detach()
    out = ((advantage > 0) & (moved > 0.08)) | ((advantage < 0) & (moved < -0.05))
    return prime(batch, theta, advantage, (~out).double())


def prime_ipo(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """A window on probabilities, whatever the advantage."""
    moved = (theta.exp() - batch.sampler.exp()).detach()
    return prime(batch, theta, advantage, (moved.abs() <= 0.05).double())


def max_rl(batch: Batch) -> Tensor:
    """(r - mean) / mean."""
    made = torch.zeros_like(batch.reward)
    for rows in groups(batch):
        mean = batch.reward[rows].mean()
        made[rows] = (batch.reward[rows] - mean) / mean if mean > 0 else torch.zeros(len(rows)).double()
    return made


PRIME = CENTRED.replace(
    filter=Filter(zero_advantage=True),
    ratio=Ratio(denominator="sampler"),
    kl=KL(loss=LossKL(coefficient=0.6, estimator="k2", against="sampler")),
)
DPPO_TV = DPPO(delta_low=0.05, delta_high=0.08)
WINDOWS = {"dppo_mask_low": 0.05, "dppo_mask_high": 0.08, "ipo_threshold": 0.05, "kl_tau": 0.3}
MOVED = Kind(groups=EVEN, drift=0.8)
PRIME_RL = [
    case(
        "prime-rl",
        "0.8.0",
        "grpo, default loss",
        PRIME.replace(clip=DPPO_TV),
        centred,
        prime_default,
        {"loss": WINDOWS, "algo": {"type": "grpo"}},
        MOVED,
    ),
    case(
        "prime-rl",
        "0.8.0",
        "grpo, ipo loss",
        PRIME.replace(clip=ProbabilityMask(delta=0.05)),
        centred,
        prime_ipo,
        {"loss": {"type": "ipo", **WINDOWS}, "algo": {"type": "grpo"}},
        MOVED,
    ),
    case(
        "prime-rl",
        "0.8.0",
        "max_rl",
        PRIME.replace(clip=DPPO_TV, scale=Scale(kind="group_mean")),
        max_rl,
        prime_default,
        {"loss": WINDOWS, "algo": {"type": "max_rl"}},
        Kind(groups=EVEN, drift=0.8, rewards="binary"),
    ),
]

# slime: row means, and the KL type of its choice.

SLIME_BASE = CENTRED.replace(scale=Scale(kind="group_std", ddof=1, epsilon=1e-6), aggregation=ROWS)
SLIME_ADVANTAGE = divided(1, 1e-6)


def slime(
    name: str,
    objective: Objective,
    values: Callable[[Batch, Tensor, Tensor], Tensor],
    mean: Callable[[Tensor, Tensor], Tensor] = by_row,
    kind: Kind = ONE,
    **config: Any,
) -> Case:
    """Per-token losses and their mean."""

    def loss(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
        return mean(values(batch, theta, advantage), batch.weight)

    options = {"advantage_estimator": "grpo", "n_samples_per_prompt": 4, **config}
    return case("slime", "0.3.1", name, objective, SLIME_ADVANTAGE, loss, options, kind)


def ppo(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """PPO's clip on token ratios."""
    return clipped(rho(batch, theta), advantage, 0.2, 0.2)


def opsm(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """Rows of negative advantage that left the old policy drop out."""
    far = log_mean(batch.old - theta.detach(), batch.weight) > 0.02
    return torch.where((advantage < 0) & far, 0.0, ppo(batch, theta, advantage))


def slime_gspo(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """Ratio of the response."""
    ratio = log_mean(theta - batch.old, batch.weight).exp()
    return clipped(ratio, advantage, 0.05, 0.06).expand_as(theta)


def ice(batch: Batch) -> Tensor:
    """The sampler weight inside its window."""
    weight = kappa(batch)
    return torch.where((weight >= 0.8) & (weight <= 1.3), weight, 0.0)


KL_LOSS = {"use_kl_loss": True, "kl_loss_coef": 0.3}
OPSM = Correction(
    action="gate",
    level="sequence",
    numerator="theta",
    against="old",
    low=math.exp(-0.02),
    keep_nonnegative=True,
)
SLIME = [
    slime("grpo", SLIME_BASE, ppo),
    slime(
        "grpo, per-token loss",
        SLIME_BASE.replace(aggregation=MEAN),
        ppo,
        by_token,
        calculate_per_token_loss=True,
    ),
    slime(
        "KL k1",
        SLIME_BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, estimator="k1"))),
        lambda b, theta, a: ppo(b, theta, a) + 0.3 * (theta - b.ref),
        **KL_LOSS,
        kl_loss_type="k1",
    ),
    slime(
        "KL low_var_kl",
        SLIME_BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, output_clamp=10.0))),
        lambda b, theta, a: ppo(b, theta, a) + 0.3 * k3(theta, b.ref, None, 10.0),
        kind=Kind(groups=EVEN, far_ref=3.0),
        **KL_LOSS,
        kl_loss_type="low_var_kl",
    ),
    slime(
        "KL k3, unbiased",
        SLIME_BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, gradient="ratio"))),
        lambda b, theta, a: ppo(b, theta, a) + 0.3 * rho(b, theta) * k3(theta, b.ref),
        **KL_LOSS,
        kl_loss_type="k3",
        use_unbiased_kl=True,
    ),
    slime(
        "TIS",
        SLIME_BASE.replace(ratio=Ratio(denominator="old", corrections=(Correction(low=0.0, high=1.3),))),
        lambda b, theta, a: ppo(b, theta, a) * kappa(b).clamp(0.0, 1.3),
        use_tis=True,
        tis_clip=1.3,
    ),
    slime(
        "IcePop",
        SLIME_BASE.replace(
            ratio=Ratio(denominator="old", corrections=(Correction(action="mask", low=0.8, high=1.3),))
        ),
        lambda b, theta, a: ppo(b, theta, a) * ice(b),
        use_tis=True,
        tis_clip=1.3,
        tis_clip_low=0.8,
        custom_tis_function_path="examples.icepop.icepop_function",
    ),
    slime(
        "GSPO",
        SLIME_BASE.replace(
            ratio=Ratio(denominator="old", level="sequence"),
            clip=PPOClip(epsilon_low=0.05, epsilon_high=0.06),
        ),
        slime_gspo,
        advantage_estimator="gspo",
        eps_clip=0.05,
        eps_clip_high=0.06,
    ),
    slime(
        "CISPO",
        SLIME_BASE.replace(clip=CISPOClip(epsilon_low=0.2, epsilon_high=0.28)),
        lambda b, theta, a: bounded(rho(b, theta), a, theta, 0.8, 1.28),
        advantage_estimator="cispo",
        eps_clip_high=0.28,
    ),
    slime(
        "OPSM",
        SLIME_BASE.replace(ratio=Ratio(denominator="old", corrections=(OPSM,))),
        opsm,
        use_opsm=True,
        opsm_delta=0.02,
    ),
]

# open-instruct: dead groups are dropped, and the sampler weight multiplies the policy term alone.

ALIVE = Filter(dynamic_sampling=True)
RHO = Ratio(denominator="old", corrections=(Correction(high=1.3),))
WIDER = PPOClip(epsilon_low=0.2, epsilon_high=0.272)
OPEN_BASE = CENTRED.replace(filter=ALIVE, ratio=RHO, clip=WIDER)


def alive(batch: Batch) -> Tensor:
    """Loss mask without the rows of groups whose rewards agree."""
    mask = batch.weight.clone()
    for rows in groups(batch):
        if batch.reward[rows].max() == batch.reward[rows].min():
            mask[rows] = 0.0
    return mask


def instruct(
    name: str,
    objective: Objective,
    values: Callable[[Batch, Tensor, Tensor], Tensor],
    advantages: Estimator = centred,
    constant: float | None = None,
    **config: Any,
) -> Case:
    """Per-token losses over all tokens, or over a constant."""

    def loss(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
        made, mask = values(batch, theta, advantage), alive(batch)
        return by_token(made, mask) if constant is None else (made * mask).sum() / constant

    options = {"beta": 0.0, "rho_clamp_upper_bound": 1.3, "num_mini_batches": 2, **config}
    if constant is not None:
        options["loss_denominator"] = constant
    return case("open-instruct", "0.3.0", name, objective, advantages, loss, options)


def instructed(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """PPO's clip with the truncated sampler weight."""
    return clipped(rho(batch, theta), advantage, 0.2, 0.272) * kappa(batch).clamp(max=1.3)


OPEN_INSTRUCT = [
    instruct("dapo loss", OPEN_BASE, instructed),
    instruct(
        "dapo loss, KL estimator 2",
        OPEN_BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, input_clamp=40.0))),
        lambda b, theta, a: instructed(b, theta, a) + 0.3 * k3(theta, b.ref, 40.0),
        beta=0.3,
    ),
    instruct(
        "dapo loss, KL estimator 3",
        OPEN_BASE.replace(
            kl=KL(loss=LossKL(coefficient=0.3, estimator="k1", gradient="ratio", input_clamp=40.0))
        ),
        lambda b, theta, a: instructed(b, theta, a) + 0.3 * rho(b, theta) * (theta - b.ref).clamp(-40, 40),
        beta=0.3,
        kl_estimator=3,
    ),
    instruct(
        "cispo loss",
        OPEN_BASE.replace(clip=CISPOClip(epsilon_high=0.272)),
        lambda b, theta, a: bounded(rho(b, theta), a, theta, None, 1.272) * kappa(b).clamp(max=1.3),
        loss_fn="cispo",
    ),
    instruct(
        "standard normalisation, constant denominator",
        OPEN_BASE.replace(
            scale=Scale(kind="group_std", ddof=0, epsilon=1e-8),
            aggregation=Aggregation(kind="token-sum-norm", constant=500.0),
        ),
        instructed,
        divided(0, 1e-8),
        500.0,
        advantage_normalization_type="standard",
    ),
]

# tinker-cookbook: a sum over tokens, with the ratio to the sampler.

TINKER_BASE = CENTRED.replace(
    ratio=Ratio(denominator="sampler"), clip=NoClip(), aggregation=Aggregation(kind="token-sum")
)


def tinker(
    name: str, objective: Objective, values: Loss, advantages: Estimator = centred, **config: Any
) -> Case:
    """Summed per-token losses."""

    def loss(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
        return (values(batch, theta, advantage) * batch.weight).sum()

    return case("tinker", "0.6.1", name, objective, advantages, loss, config)


def to_sampler(batch: Batch, theta: Tensor) -> Tensor:
    """Ratio to the sampler."""
    return (theta - batch.sampler).exp()


def paying(batch: Batch) -> Tensor:
    """coef (mean KL - KL of the token), sampler to base model."""
    kl = batch.sampler - batch.ref
    mean = (kl * batch.weight).sum() / batch.weight.sum()
    return centred(batch)[:, None] + 0.1 * (mean - kl)


TINKER = [
    tinker("importance_sampling", TINKER_BASE, lambda b, theta, a: -to_sampler(b, theta) * a),
    tinker(
        "ppo",
        TINKER_BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2)),
        lambda b, theta, a: clipped(to_sampler(b, theta), a, 0.2, 0.2),
        loss_fn="ppo",
    ),
    tinker(
        "cispo",
        TINKER_BASE.replace(clip=CISPOClip(epsilon_low=0.2, epsilon_high=0.2)),
        lambda b, theta, a: bounded(to_sampler(b, theta), a, theta, 0.8, 1.2),
        loss_fn="cispo",
    ),
    tinker(
        "importance_sampling, KL penalty",
        TINKER_BASE.replace(
            kl=KL(reward=RewardKL(coefficient=0.1, stage="after_scale", form="centred", policy="sampler"))
        ),
        lambda b, theta, a: -to_sampler(b, theta) * a,
        paying,
        kl_penalty_coef=0.1,
    ),
]

CASES = [*PRIME_RL, *SLIME, *OPEN_INSTRUCT, *TINKER]
