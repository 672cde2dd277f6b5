"""verl 0.9.1: policy losses, their aggregations and the KL in the loss, on its own GRPO advantages."""

from __future__ import annotations

from typing import Any

from audit.objectives.objective import KL, Aggregation, LossKL, Objective, Ratio
from audit.objectives.surrogates import (
    DPPO,
    GMPO,
    SAPO,
    CISPOClip,
    ClipCov,
    KLCov,
    NoClip,
    PPOClip,
    Regression,
)
from conformance.batch import Kind
from conformance.case import Case
from conformance.verl_calls import GRPO, answer
from conformance.verl_estimators import CENTRED, CLIP, FRAMEWORK, MEAN, RATIO, STD, VERSION

BASE = Objective(baseline=CENTRED, scale=STD, ratio=RATIO, clip=CLIP, aggregation=MEAN)
ROWS = Aggregation(kind="seq-mean-token-mean", epsilon=1e-8)
UNCLAMPED = Ratio(denominator="old")
FAR = Kind(drift=1.2, far_ref=3.0)
"""Ratios beyond the dual clip, and log-ratios to the reference beyond the clamps."""
BEYOND = Kind(drift=9.0, far_ref=9.0)
"""Log-ratios beyond 20 nats."""


def case(
    name: str,
    objective: Objective,
    actor: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    kind: Kind | None = None,
    *,
    constant: float | None = None,
    kl: tuple[str, float] | None = None,
) -> Case:
    """A loss on GRPO advantages."""
    declared: dict[str, Any] = {**(actor or {}), "policy_loss": dict(policy or {})}
    if kl is not None:
        declared |= {"use_kl_loss": True, "kl_loss_type": kl[0], "kl_loss_coef": kl[1]}
    if constant is not None:
        declared["loss_scale_factor"] = int(constant)
    return Case(
        FRAMEWORK,
        VERSION,
        name,
        objective,
        answer(GRPO, actor, policy, constant=constant, kl=kl),
        kind=kind or Kind(),
        config={
            "algorithm": {"adv_estimator": "grpo"},
            "actor_rollout_ref": {"actor": declared, "rollout": {"n": 4}},
        },
    )


def loss_kl(kind: str, estimator: str, kind_of_batch: Kind | None = None, **options: Any) -> Case:
    """A KL in the loss."""
    return case(
        f"KL {kind}" + (", far" if kind_of_batch else ""),
        BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, estimator=estimator, **options))),
        kl=(kind, 0.3),
        kind=kind_of_batch,
    )


K3 = {"input_clamp": 20.0, "output_clamp": 10.0}
HIGHER = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28}

CASES = [
    case("vanilla, token-mean", BASE, {"loss_agg_mode": "token-mean"}),
    case(
        "vanilla, seq-mean-token-mean",
        BASE.replace(aggregation=ROWS),
        {"loss_agg_mode": "seq-mean-token-mean"},
    ),
    case(
        "vanilla, seq-mean-token-sum",
        BASE.replace(aggregation=Aggregation(kind="seq-mean-token-sum")),
        {"loss_agg_mode": "seq-mean-token-sum"},
    ),
    case(
        "vanilla, seq-mean-token-sum-norm",
        BASE.replace(aggregation=Aggregation(kind="seq-mean-token-sum-norm", constant=40.0)),
        {"loss_agg_mode": "seq-mean-token-sum-norm"},
        constant=40.0,
    ),
    case(
        "vanilla, seq-mean-token-sum-norm by the padded width",
        BASE.replace(aggregation=Aggregation(kind="seq-mean-token-sum-norm", constant="longest")),
        {"loss_agg_mode": "seq-mean-token-sum-norm"},
    ),
    case(
        "vanilla, token-sum",
        BASE.replace(aggregation=Aggregation(kind="token-sum")),
        {"loss_agg_mode": "token-sum"},
    ),
    case("vanilla, two micro-batches", BASE, kind=Kind(micro_batches=2)),
    case(
        "vanilla, row mean over two micro-batches",
        BASE.replace(aggregation=ROWS),
        {"loss_agg_mode": "seq-mean-token-mean"},
        kind=Kind(micro_batches=2, empty_row=True),
    ),
    case(
        "vanilla, a row without loss tokens",
        BASE.replace(aggregation=Aggregation(kind="seq-mean-token-sum")),
        {"loss_agg_mode": "seq-mean-token-sum"},
        kind=Kind(empty_row=True),
    ),
    case(
        "vanilla, clip higher",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.28, dual=3.0)),
        HIGHER,
    ),
    case("vanilla, dual clip", BASE, kind=FAR),
    case(
        "vanilla, dual clip at 1.5",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=1.5)),
        {"clip_ratio_c": 1.5},
        kind=FAR,
    ),
    case("vanilla, log-ratio beyond its clamp", BASE, kind=BEYOND),
    case(
        "gspo, token-mean",
        BASE.replace(
            ratio=Ratio(denominator="old", level="sequence_token"),
            clip=PPOClip(epsilon_low=0.05, epsilon_high=0.06),
        ),
        {"clip_ratio_low": 0.05, "clip_ratio_high": 0.06},
        {"loss_mode": "gspo"},
    ),
    case(
        "gspo, seq-mean-token-mean",
        BASE.replace(
            ratio=Ratio(denominator="old", level="sequence_token"),
            clip=PPOClip(epsilon_low=0.05, epsilon_high=0.06),
            aggregation=ROWS,
        ),
        {"clip_ratio_low": 0.05, "clip_ratio_high": 0.06, "loss_agg_mode": "seq-mean-token-mean"},
        {"loss_mode": "gspo"},
    ),
    case(
        "cispo",
        BASE.replace(clip=CISPOClip(epsilon_low=0.2, epsilon_high=0.28)),
        HIGHER,
        {"loss_mode": "cispo"},
    ),
    case(
        "cispo, log-ratio beyond its clamp",
        BASE.replace(clip=CISPOClip(epsilon_low=0.2, epsilon_high=0.28)),
        HIGHER,
        {"loss_mode": "cispo"},
        kind=BEYOND,
    ),
    case(
        "sapo",
        BASE.replace(clip=SAPO(tau_positive=1.0, tau_negative=1.05), aggregation=ROWS),
        None,
        {"loss_mode": "sapo"},
    ),
    case(
        "sapo, other temperatures",
        BASE.replace(clip=SAPO(tau_positive=2.0, tau_negative=5.0), aggregation=ROWS),
        {"tau_pos": 2.0, "tau_neg": 5.0},
        {"loss_mode": "sapo"},
    ),
    case("gpg loss", BASE.replace(ratio=Ratio(), clip=NoClip()), None, {"loss_mode": "gpg"}),
    case(
        "geo_mean",
        BASE.replace(
            ratio=UNCLAMPED,
            clip=GMPO(epsilon_low=0.2, epsilon_high=0.3),
            aggregation=ROWS,
        ),
        {"clip_ratio_low": 0.2, "clip_ratio_high": 0.3},
        {"loss_mode": "geo_mean"},
    ),
    case(
        "dppo_tv",
        BASE.replace(clip=DPPO(divergence="tv", delta_low=0.05, delta_high=0.08, cap=3.0)),
        {"clip_ratio_low": 0.05, "clip_ratio_high": 0.08},
        {"loss_mode": "dppo_tv"},
        kind=Kind(drift=0.8),
    ),
    case(
        "dppo_kl",
        BASE.replace(clip=DPPO(divergence="kl", delta_low=0.02, delta_high=0.03, cap=3.0)),
        {"clip_ratio_low": 0.02, "clip_ratio_high": 0.03},
        {"loss_mode": "dppo_kl"},
        kind=Kind(drift=0.8),
    ),
    case(
        "dro",
        BASE.replace(ratio=UNCLAMPED, clip=Regression(tau=0.7)),
        None,
        {"loss_mode": "dro", "dro_beta": 0.7},
    ),
    case(
        "kl_cov",
        BASE.replace(ratio=UNCLAMPED, clip=KLCov(fraction=0.2, coefficient=0.5)),
        None,
        {"loss_mode": "kl_cov", "kl_cov_ratio": 0.2, "ppo_kl_coef": 0.5},
    ),
    case(
        "clip_cov, every token of the window drawn",
        BASE.replace(
            ratio=UNCLAMPED,
            clip=ClipCov(epsilon_low=0.2, epsilon_high=0.2, fraction=1.0, low=0.3, high=5.0),
        ),
        None,
        {"loss_mode": "clip_cov", "clip_cov_ratio": 1.0, "clip_cov_lb": 0.3, "clip_cov_ub": 5.0},
    ),
    loss_kl("kl", "k1"),
    loss_kl("abs", "abs"),
    loss_kl("mse", "k2"),
    loss_kl("low_var_kl", "k3", **K3),
    loss_kl("low_var_kl", "k3", FAR, **K3),
    loss_kl("k1+", "k1", gradient="straight_through"),
    loss_kl("k3+", "k3", gradient="straight_through", **K3),
    loss_kl("k3+", "k3", FAR, gradient="straight_through", **K3),
    case(
        "KL low_var_kl, seq-mean-token-mean",
        BASE.replace(aggregation=ROWS, kl=KL(loss=LossKL(coefficient=0.3, **K3))),
        {"loss_agg_mode": "seq-mean-token-mean"},
        kl=("low_var_kl", 0.3),
    ),
]
