"""NeMo-RL at 7ea279abf (0.7.0): ClippedPGLossFn and its advantages, written down and differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Correction,
    LossKL,
    Objective,
    Ratio,
    Scale,
    Whiten,
)
from audit.objectives.surrogates import CISPOClip, NoClip, PPOClip
from conformance.batch import EVEN, Batch, Kind
from conformance.case import Case
from conformance.written import (
    answer,
    bounded,
    by_row,
    by_token,
    clipped,
    k3,
    log_mean,
    standardised,
    whitened,
    without_self,
)

ONE = Kind(groups=EVEN)
MEAN = Aggregation(kind="token-mean", rows="nonempty", epsilon=1e-8)
ROWS = Aggregation(kind="seq-mean-token-mean", rows="nonempty", epsilon=1e-8)
BASE = Objective(
    baseline=Baseline(kind="leave_one_out"),
    scale=Scale(kind="leave_one_out_std", ddof=1, epsilon=1e-6),
    ratio=Ratio(denominator="old"),
    clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
    aggregation=MEAN,
)


def default(batch: Batch) -> Tensor:
    """Leave-one-out mean and std."""
    return without_self(batch, divide=True)


def rho(batch: Batch, theta: Tensor) -> Tensor:
    """Ratio to the recomputed policy."""
    return (theta - batch.old).exp()


def weight(batch: Batch) -> Tensor:
    """Ratio of recomputed policy to sampler."""
    return (batch.old - batch.sampler).exp()


def case(
    name: str,
    objective: Objective,
    loss: Callable[[Batch, Tensor, Tensor], Tensor],
    advantages: Callable[[Batch], Tensor] = default,
    kind: Kind = ONE,
    grpo: dict[str, Any] | None = None,
    **loss_fn: Any,
) -> Case:
    """One set-up, with the config that chooses it."""
    loss_fn = {"reference_policy_kl_penalty": 0.0, **loss_fn}
    config = {"grpo": grpo or {}, "loss_fn": loss_fn}
    theirs = answer(advantages, loss)
    return Case("nemo-rl", "0.7.0", name, objective, theirs, "autograd", kind=kind, config=config)


def plain(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """Token mean of PPO's clip."""
    return by_token(clipped(rho(batch, theta), advantage, 0.2, 0.2), batch.weight, 1e-8)


def weighted(kappa: Callable[[Batch], Tensor]) -> Callable[[Batch, Tensor, Tensor], Tensor]:
    """PPO's clip times a sampler weight."""

    def loss(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
        values = clipped(rho(batch, theta), advantage, 0.2, 0.2) * kappa(batch)
        return by_token(values, batch.weight, 1e-8)

    return loss


def with_kl(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """k3 times a ratio of value 1 whose gradient counts; the product is clamped."""
    unit = (theta - theta.detach()).exp()
    unit = torch.where((theta - batch.ref).abs() <= 20.0, unit, unit.detach())
    pull = (unit * k3(theta, batch.ref, 20.0)).clamp(-10.0, 10.0)
    return plain(batch, theta, advantage) + 0.3 * by_token(pull, batch.weight, 1e-8)


def gspo(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """Response ratio, weighted by the product of the sampler's ratios."""
    ratio = log_mean(theta - batch.old, batch.weight).exp()
    product = ((batch.old - batch.sampler) * batch.weight).sum(1, keepdim=True).exp()
    values = (clipped(ratio, advantage, 0.05, 0.06) * product).expand_as(theta)
    return by_row(values, batch.weight, 1e-8)


def masked(low: float, high: float) -> Callable[[Batch], Tensor]:
    """IcePop: the weight inside the window, else 0."""
    return lambda batch: torch.where((weight(batch) >= low) & (weight(batch) <= high), weight(batch), 0.0)


def gated(batch: Batch) -> Tensor:
    """Token weights of responses whose geometric mean lies in the window."""
    mean = log_mean(batch.old - batch.sampler, batch.weight).exp()
    return weight(batch) * ((mean >= 0.95) & (mean <= 1.05))


CORRECTED = {"use_importance_sampling_correction": True}
IN = {"truncated_importance_sampling_ratio": 1.3, "truncated_importance_sampling_ratio_min": 0.8}


def ratio(*corrections: Correction) -> Ratio:
    """To the recomputed policy, corrected."""
    return Ratio(denominator="old", corrections=corrections)


CASES = [
    case("default", BASE, plain),
    case(
        "leave one out, not divided",
        BASE.replace(scale=Scale()),
        plain,
        lambda batch: without_self(batch, divide=False),
        grpo={"normalize_rewards": False},
    ),
    case(
        "group mean and std",
        BASE.replace(
            baseline=Baseline(kind="group_mean"), scale=Scale(kind="group_std", ddof=1, epsilon=1e-6)
        ),
        plain,
        lambda batch: standardised(batch.reward, batch, ddof=1, epsilon=1e-6),
        grpo={"use_leave_one_out_baseline": False},
    ),
    case(
        "reinforce_plus_plus, minus baseline",
        BASE.replace(
            baseline=Baseline(kind="group_mean"),
            scale=Scale(whiten=Whiten(level="token", ddof=0, epsilon=1e-8, epsilon_in="floor")),
        ),
        plain,
        lambda batch: whitened(
            standardised(batch.reward, batch, ddof=None)[:, None].expand_as(batch.theta), batch.weight
        ),
        grpo={"adv_estimator": {"name": "reinforce_plus_plus", "minus_baseline": True}},
    ),
    case(
        "KL in the loss",
        BASE.replace(
            kl=KL(loss=LossKL(coefficient=0.3, gradient="unit_ratio", input_clamp=20.0, output_clamp=10.0))
        ),
        with_kl,
        kind=Kind(groups=EVEN, far_ref=3.0),
        reference_policy_kl_penalty=0.3,
    ),
    case(
        "GSPO, sampler product",
        BASE.replace(
            ratio=Ratio(denominator="old", level="sequence", corrections=(Correction(level="product"),)),
            clip=PPOClip(epsilon_low=0.05, epsilon_high=0.06),
            aggregation=ROWS,
        ),
        gspo,
        sequence_level_importance_ratios=True,
        token_level_loss=False,
        ratio_clip_min=0.05,
        ratio_clip_max=0.06,
        **CORRECTED,
    ),
    case(
        "CISPO",
        BASE.replace(clip=CISPOClip(epsilon_low=0.2, epsilon_high=0.28)),
        lambda batch, theta, a: by_token(bounded(rho(batch, theta), a, theta, 0.8, 1.28), batch.weight, 1e-8),
        use_cispo=True,
        ratio_clip_max=0.28,
    ),
    case(
        "dual clip",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=1.5)),
        lambda batch, theta, a: by_token(clipped(rho(batch, theta), a, 0.2, 0.2, 1.5), batch.weight, 1e-8),
        kind=Kind(groups=EVEN, drift=0.8),
        ratio_clip_c=1.5,
    ),
    case(
        "forced ratio of 1",
        BASE.replace(ratio=Ratio(), clip=NoClip()),
        lambda batch, theta, a: by_token(-(theta - theta.detach()).exp() * a, batch.weight, 1e-8),
        force_on_policy_ratio=True,
    ),
    case(
        "IcePop",
        BASE.replace(ratio=ratio(Correction(action="mask", low=0.8, high=1.3))),
        weighted(masked(0.8, 1.3)),
        truncated_importance_sampling_type="icepop",
        **CORRECTED,
        **IN,
    ),
    case(
        "truncated importance sampling",
        BASE.replace(ratio=ratio(Correction(high=1.3))),
        weighted(lambda batch: weight(batch).clamp(max=1.3)),
        truncated_importance_sampling_type="tis",
        truncated_importance_sampling_ratio=1.3,
        **CORRECTED,
    ),
    case(
        "seq-mask-tis",
        BASE.replace(
            ratio=ratio(Correction(action="gate", level="sequence", low=0.95, high=1.05), Correction())
        ),
        weighted(gated),
        truncated_importance_sampling_type="seq-mask-tis",
        truncated_importance_sampling_ratio=1.05,
        truncated_importance_sampling_ratio_min=0.95,
        **CORRECTED,
    ),
]
