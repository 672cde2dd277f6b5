"""oat c1a074c32 (0.2.3) and ROLL 8eb27cc2d (0.3.0): written down from their source and differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from audit.objectives.objective import (
    KL,
    Aggregation,
    Correction,
    LossKL,
    Objective,
    Ratio,
    RewardKL,
    Scale,
)
from audit.objectives.surrogates import CISPOClip, NoClip, PPOClip, Regression
from conformance.batch import EVEN, Batch, Kind
from conformance.case import Case
from conformance.written import bounded, by_row, by_token, clipped, k3, standardised
from conformance.written_cases import CENTRED, ONE, Loss, case, centred, divided, kappa, rho

TWO = Kind(groups=EVEN, micro_batches=2)

# oat: rows are averaged within a micro-batch, and PPO's term carries the truncated sampler weight.

PER_SLICE = Aggregation(kind="seq-mean-token-sum-norm", scope="micro_batch", constant=40.0)
OAT_BASE = CENTRED.replace(
    ratio=Ratio(denominator="old", corrections=(Correction(high=1.3),)), aggregation=PER_SLICE
)


def oat(
    name: str,
    objective: Objective,
    values: Loss,
    reward: Callable[[Batch], Tensor] = centred,
    **config: Any,
) -> Case:
    """Row sums over a constant for drgrpo, row means for grpo; micro-batches averaged."""
    dr = config.get("critic_type", "drgrpo") == "drgrpo"

    def loss(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
        made, total = values(batch, theta, advantage), theta.new_zeros(())
        for rows in batch.slices():
            sums = (made * batch.weight)[rows].sum(1)
            total = total + (sums / (40.0 if dr else batch.weight[rows].sum(1))).mean()
        return total / batch.kind.micro_batches

    options = {"beta": 0.0, "generate_max_length": 40, "tis_c": 1.3, **config}
    return case("oat", "0.2.3", name, objective, reward, loss, options, TWO)


def weighted(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """PPO's clip with the truncated sampler weight."""
    return clipped(rho(batch, theta), advantage, 0.2, 0.2) * kappa(batch).clamp(max=1.3)


def paid(batch: Batch) -> Tensor:
    """KL in the reward, before the group's mean."""
    kl = ((batch.old - batch.ref) * batch.weight).sum(1)
    return standardised(batch.reward - 0.1 * kl, batch, ddof=None)


OAT = [
    oat("drgrpo", OAT_BASE, weighted),
    oat(
        "grpo",
        OAT_BASE.replace(
            scale=Scale(kind="group_std", ddof=1, epsilon=1e-8),
            aggregation=Aggregation(kind="seq-mean-token-mean", scope="micro_batch"),
        ),
        weighted,
        divided(1, 1e-8),
        critic_type="grpo",
    ),
    oat(
        "drgrpo, KL in the loss",
        OAT_BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, input_clamp=40.0))),
        lambda b, theta, a: weighted(b, theta, a) + 0.3 * k3(theta, b.ref, 40.0),
        beta=0.3,
    ),
    oat(
        "drgrpo, KL in the reward",
        OAT_BASE.replace(kl=KL(reward=RewardKL(coefficient=0.1))),
        weighted,
        paid,
        kl_penalty_coef=0.1,
    ),
    oat(
        "reinforce_update",
        OAT_BASE.replace(ratio=Ratio(), clip=NoClip()),
        lambda b, theta, a: -theta * a,
        reinforce_update=True,
    ),
]

# ROLL: row means over count + 1e-8; dual clip at 1 + 2 · pg_clip.

ROWS = Aggregation(kind="seq-mean-token-mean", rows="nonempty", epsilon=1e-8)
ROLL_BASE = CENTRED.replace(scale=Scale(kind="group_std", ddof=1, epsilon=1e-6), aggregation=ROWS)
PG = "roll.pipeline.rlvr.actor_pg_worker.ActorPGWorker"


def roll(
    name: str,
    objective: Objective,
    values: Loss,
    mean: Callable[[Tensor, Tensor], Tensor] | None = None,
    kind: Kind = ONE,
    **config: Any,
) -> Case:
    """Per-token losses and their mean."""

    def loss(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
        made = values(batch, theta, advantage)
        return by_row(made, batch.weight, 1e-8) if mean is None else mean(made, batch.weight)

    options = {"adv_estimator": "grpo", **config}
    return case("roll", "0.3.0", name, objective, divided(1, 1e-6), loss, options, kind)


def ppo(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """PPO's clip on token ratios."""
    return clipped(rho(batch, theta), advantage, 0.2, 0.2)


def unified(batch: Batch, theta: Tensor, advantage: Tensor) -> Tensor:
    """CISPO without the tokens that PPO would drop."""
    ratio = rho(batch, theta).detach()
    dropped = ((advantage > 0) & (ratio > 1.1)) | ((advantage < 0) & (ratio < 0.9))
    return bounded(ratio, advantage, theta, 0.9, 1.1).masked_fill(dropped, 0.0)


def variant(name: str, **settings: Any) -> dict[str, Any]:
    """Config of the worker whose surrogate is chosen by name."""
    return {"actor_train": {"worker_cls": PG, "pg_variant": name, **settings}}


ROLL = [
    roll("grpo", ROLL_BASE, ppo),
    roll(
        "dual clip",
        ROLL_BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=1.4)),
        lambda b, theta, a: clipped(rho(b, theta), a, 0.2, 0.2, 1.4),
        kind=Kind(groups=EVEN, drift=0.8),
        dual_clip_loss=True,
    ),
    roll(
        "token-mean",
        ROLL_BASE.replace(aggregation=Aggregation(kind="token-mean")),
        ppo,
        by_token,
        loss_agg_mode="token-mean",
    ),
    roll(
        "seq-mean-token-sum-norm",
        ROLL_BASE.replace(aggregation=Aggregation(kind="token-sum-norm", constant=39.0)),
        ppo,
        lambda values, mask: (values * mask).sum() / 39.0,
        loss_agg_mode="seq-mean-token-sum-norm",
        sequence_length=40,
    ),
    roll(
        "KL in the loss",
        ROLL_BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, output_clamp=10.0))),
        lambda b, theta, a: ppo(b, theta, a) + 0.3 * k3(theta, b.ref, None, 10.0),
        kind=Kind(groups=EVEN, far_ref=3.0),
        use_kl_loss=True,
        kl_loss_coef=0.3,
    ),
    roll(
        "vanilla policy gradient",
        ROLL_BASE.replace(ratio=Ratio(), clip=NoClip()),
        lambda b, theta, a: -theta * a,
        **variant("vanilla"),
    ),
    roll(
        "tis",
        ROLL_BASE.replace(clip=CISPOClip(epsilon_low=1.0, epsilon_high=0.0)),
        lambda b, theta, a: bounded(rho(b, theta), a, theta, 0.0, 1.0),
        **variant("tis"),
    ),
    roll(
        "cispo, unified mask",
        ROLL_BASE.replace(clip=CISPOClip(epsilon_low=0.1, epsilon_high=0.1, masked=True)),
        unified,
        **variant("cispo", cispo_use_unified_mask=True),
    ),
    roll(
        "kimi15",
        ROLL_BASE.replace(clip=Regression(tau=0.1)),
        lambda b, theta, a: -(theta * a - 0.05 * (theta - b.old).square()),
        **variant("kimi15"),
    ),
]

CASES = [*OAT, *ROLL]
