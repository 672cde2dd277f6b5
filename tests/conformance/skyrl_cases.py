"""SkyRL 0.3.0: estimators, losses, reductions and off-policy corrections.

Its ratios are formed in float32 (``safe_exp_delta``); here the same clamp and exp run in float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
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
from audit.objectives.surrogates import DPPO, SAPO, CISPOClip, ClipCov, KLCov, NoClip, PPOClip
from conformance.batch import UNEVEN, Batch, Kind
from conformance.case import PLAIN, Answer, Case, gradient
from conformance.stubs import bare, stub

LONE = Kind(groups=(4, 1, 6, 3, 5))
MEAN = Aggregation(kind="token-mean")
ROWS = Aggregation(kind="seq-mean-token-mean")
CENTRED = Baseline(kind="group_mean", singleton="raw")
RATIO = Ratio(denominator="old", clamp=20.0)
BASE = Objective(
    baseline=CENTRED,
    scale=Scale(kind="group_std", ddof=1, epsilon=1e-6),
    ratio=RATIO,
    clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2),
    aggregation=MEAN,
)
OFF = BASE.replace(scale=Scale())
WHITEN = Scale(whiten=Whiten(level="token", ddof=1, epsilon=1e-8, epsilon_in="variance"))
CONSTANT = 40
SHARE = sum(UNEVEN) * CONSTANT
"""By how much the constant reduction shrinks advantages before the loss looks at them."""


@cache
def skyrl() -> SimpleNamespace:
    """The modules that decide."""
    stub("ray", "skyrl_gym", "vllm", "flash_attn", "triton")
    bare("skyrl", "skyrl.backends", "skyrl.backends.skyrl_train", "skyrl.backends.skyrl_train.utils")
    bare("skyrl.train")
    from skyrl.backends.skyrl_train.utils import off_policy_correction_utils, ppo_utils
    from skyrl.train.config import config

    def exp_delta(delta: Tensor, clip: float = 20.0, out_dtype: Any = None) -> Tensor:
        return delta.clamp(-clip, clip).exp()

    ppo_utils.safe_exp_delta = exp_delta
    off_policy_correction_utils.safe_exp_delta = exp_delta
    return SimpleNamespace(utils=ppo_utils, config=config)


ESTIMATORS = {
    "grpo": "compute_grpo_outcome_advantage",
    "rloo": "compute_rloo_outcome_advantage",
    "reinforce++": "compute_reinforce_plus_plus_outcome_advantage",
    "maxrl": "compute_maxrl_advantage",
    "gae": "compute_gae_advantage_return",
}
LOSSES = {
    "regular": "ppo_policy_loss",
    "dual_clip": "ppo_policy_loss",
    "sapo": "sapo_policy_loss",
    "gspo": "gspo_policy_loss",
    "cispo": "compute_policy_loss_cispo",
    "rollout_is": "rollout_is_policy_loss",
    "dppo": "dppo_policy_loss",
    "clip_cov": "compute_policy_loss_clip_cov",
    "kl_cov": "compute_policy_loss_kl_cov",
    "importance_sampling": "importance_sampling_loss",
}


def answer(
    estimator: str = "grpo",
    reduction: str = "token_mean",
    loss: str = "regular",
    kl: tuple[str, float] | None = None,
    estimator_options: dict[str, Any] | None = None,
    **options: Any,
) -> Callable[[Batch], Answer]:
    """Gradient of the loss on advantages that carry the reduction, as the trainer folds it in."""

    def of(batch: Batch) -> Answer:
        utils, config = skyrl().utils, skyrl().config
        made = getattr(utils, ESTIMATORS[estimator])(
            token_level_rewards=batch.token_rewards(),
            response_mask=batch.weight,
            index=batch.group.numpy(),
            values=batch.value * batch.weight,
            **{"gamma": 1.0, "lambd": 1.0, **(estimator_options or {})},
        )[0]
        sizes = np.cumsum([0, *batch.kind.groups])
        scaled = utils.apply_loss_reduction_to_advantages_minibatch(
            made,
            batch.weight,
            reduction,
            batch.rows // 2,
            CONSTANT,
            list(zip(sizes[:-1].tolist(), sizes[1:].tolist(), strict=True)),
        )
        given = config.AlgorithmConfig(policy_loss_type=loss, loss_reduction=reduction)
        for name, value in options.items():
            if isinstance(value, dict):
                value = dataclasses.replace(getattr(given, name), **value)  # noqa: PLW2901
            setattr(given, name, value)

        def total(theta: Tensor) -> Tensor:
            found = getattr(utils, LOSSES[loss])(
                theta,
                batch.old,
                scaled,
                given,
                batch.weight,
                batch.sampler
                if loss in ("rollout_is", "dppo") or "off_policy_correction" in options
                else None,
            )[0]
            if kl is not None:
                term = utils.compute_approx_kl(theta, batch.ref, batch.weight, kl[0])
                found = found + kl[1] * utils.masked_mean(term, batch.weight, dim=-1).mean()
            return found

        return Answer(made, gradient(batch, total))

    return of


def case(name: str, objective: Objective, kind: Kind = PLAIN, **options: Any) -> Case:
    """One set-up."""
    given = dict(options)
    pull = given.pop("kl", None)
    config = {
        "advantage_estimator": given.pop("estimator", "grpo"),
        "loss_reduction": given.pop("reduction", "token_mean"),
        "policy_loss_type": given.pop("loss", "regular"),
        "use_kl_loss": pull is not None,
        "kl_loss_coef": pull[1] if pull else 0.001,
        "kl_estimator_type": pull[0] if pull else "k3",
        "max_seq_len": CONSTANT,
        **(given.pop("estimator_options", None) or {}),
        **given,
    }
    config = {"trainer": {"algorithm": config}}
    return Case("skyrl", "0.3.0", name, objective, answer(**options), kind=kind, config=config)


def corrected(name: str, *corrections: Correction, **options: Any) -> Case:
    """Off-policy correction on the regular loss."""
    ratio = Ratio(denominator="old", clamp=20.0, corrections=corrections)
    return case(
        f"correction, {name}", BASE.replace(ratio=ratio), Kind(mismatch=0.3), off_policy_correction=options
    )


def pulled(kind: str, **options: Any) -> Case:
    """A KL in the loss: a row mean whatever the reduction."""
    far = options.pop("far", False)
    return case(
        f"KL in the loss, {kind}" + (", far" if far else ""),
        BASE.replace(kl=KL(loss=LossKL(coefficient=0.3, estimator=kind, aggregation=ROWS, **options))),
        Kind(far_ref=3.0) if far else PLAIN,
        kl=(kind, 0.3),
    )


NARROW = {"eps_clip_low": 0.05, "eps_clip_high": 0.06}
THIN = PPOClip(epsilon_low=0.05, epsilon_high=0.06)
K3 = {"input_clamp": 20.0, "output_clamp": 10.0}
FIXED = Aggregation(kind="seq-mean-token-sum-norm", constant=float(CONSTANT))

CASES = [
    case("grpo", BASE, LONE),
    case("grpo, no std", OFF, LONE, estimator_options={"grpo_norm_by_std": False}),
    case("rloo", OFF.replace(baseline=Baseline(kind="leave_one_out")), LONE, estimator="rloo"),
    case(
        "maxrl",
        OFF.replace(scale=Scale(kind="group_mean", epsilon=1e-6)),
        Kind(groups=(4, 1, 6, 3, 5), rewards="binary"),
        estimator="maxrl",
    ),
    case(
        "reinforce++",
        OFF.replace(baseline=Baseline(), scale=WHITEN),
        Kind(holes=False),
        estimator="reinforce++",
    ),
    case(
        "gae",
        OFF.replace(baseline=Baseline(kind="gae", gamma=0.99, lam=0.9), scale=WHITEN),
        Kind(holes=False, groups=UNEVEN),
        estimator="gae",
        estimator_options={"gamma": 0.99, "lambd": 0.9},
    ),
    case("regular, token_mean", BASE),
    case("regular, sequence_mean", BASE.replace(aggregation=ROWS), reduction="sequence_mean"),
    case(
        "regular, sequence_mean, a row without loss tokens",
        BASE.replace(aggregation=ROWS),
        Kind(empty_row=True),
        reduction="sequence_mean",
    ),
    case(
        "regular, seq_mean_token_sum_norm",
        BASE.replace(aggregation=FIXED),
        reduction="seq_mean_token_sum_norm",
    ),
    case(
        "regular, prompt_mean",
        BASE.replace(aggregation=Aggregation(kind="prompt-mean-token-mean")),
        reduction="prompt_mean",
    ),
    case(
        "regular, token_mean_legacy",
        BASE.replace(aggregation=Aggregation(kind="token-mean", scope="micro_batch")),
        Kind(groups=(4, 5, 3, 6), micro_batches=2),
        reduction="token_mean_legacy",
    ),
    case(
        "dual_clip",
        BASE.replace(clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=1.5)),
        Kind(drift=0.8),
        loss="dual_clip",
        clip_ratio_c=1.5,
    ),
    case(
        "gspo",
        BASE.replace(ratio=Ratio(denominator="old", level="sequence_token"), clip=THIN, aggregation=ROWS),
        loss="gspo",
        reduction="sequence_mean",
        **NARROW,
    ),
    case(
        "sapo",
        BASE.replace(clip=SAPO(tau_positive=1.0, tau_negative=1.05), aggregation=ROWS),
        loss="sapo",
        reduction="sequence_mean",
        sapo={"tau_pos": 1.0, "tau_neg": 1.05},
    ),
    case(
        "cispo",
        BASE.replace(clip=CISPOClip(epsilon_low=0.0, epsilon_high=0.3)),
        loss="cispo",
        cispo={"cispo_eps_clip_low": 0.0, "cispo_eps_clip_high": 0.3},
    ),
    case(
        "rollout_is",
        BASE.replace(
            ratio=Ratio(corrections=(Correction(action="mask", numerator="theta", low=0.8, high=1.2),)),
            clip=NoClip(),
        ),
        loss="rollout_is",
    ),
    case(
        "dppo, binary_tv",
        BASE.replace(
            ratio=Ratio(denominator="sampler", clamp=20.0),
            clip=DPPO(divergence="tv", delta_low=0.05, delta_high=0.08),
        ),
        Kind(drift=0.8),
        loss="dppo",
        dppo={"dppo_type": "binary_tv", "delta_low": 0.05, "delta_high": 0.08},
    ),
    case(
        "dppo, binary_kl",
        BASE.replace(
            ratio=Ratio(denominator="sampler", clamp=20.0),
            clip=DPPO(divergence="kl", delta_low=0.02, delta_high=0.03),
        ),
        Kind(drift=0.8),
        loss="dppo",
        dppo={"dppo_type": "binary_kl", "delta_low": 0.02, "delta_high": 0.03},
    ),
    case(
        "clip_cov, every token of the window drawn",
        BASE.replace(
            ratio=Ratio(denominator="old"),
            clip=ClipCov(epsilon_low=0.2, epsilon_high=0.2, fraction=1.0, low=0.3, high=5.0),
            aggregation=FIXED,
        ),
        loss="clip_cov",
        reduction="seq_mean_token_sum_norm",
        clip_cov={"clip_ratio": 1.0, "clip_cov_lb": 0.3 / SHARE, "clip_cov_ub": 5.0 / SHARE},
    ),
    case(
        "kl_cov",
        BASE.replace(
            ratio=Ratio(denominator="old"),
            clip=KLCov(fraction=0.2, coefficient=0.5),
            aggregation=FIXED,
        ),
        loss="kl_cov",
        reduction="seq_mean_token_sum_norm",
        kl_cov={"kl_cov_frac": 0.2, "ppo_kl_coef": 0.5 / SHARE},
    ),
    case(
        "importance_sampling",
        BASE.replace(ratio=Ratio(denominator="old"), clip=NoClip()),
        loss="importance_sampling",
    ),
    pulled("k1"),
    pulled("k2"),
    pulled("abs"),
    pulled("k3", **K3),
    pulled("k3", far=True, **K3),
    corrected("token TIS", Correction(high=1.3), tis_ratio_type="token", token_tis_ratio_clip_high=1.3),
    corrected(
        "sequence TIS",
        Correction(level="product", high=1.5),
        tis_ratio_type="sequence",
        sequence_tis_ratio_clip_high=1.5,
    ),
    corrected(
        "geometric mask",
        Correction(action="gate", level="sequence", low=0.9, high=1.1),
        sequence_mask_metric="geometric",
        geo_mask_low=0.9,
        geo_mask_high=1.1,
    ),
    corrected(
        "product mask",
        Correction(action="gate", level="product", low=0.4, high=2.5),
        sequence_mask_metric="product",
        product_mask_low=0.4,
        product_mask_high=2.5,
    ),
    corrected(
        "token mask",
        Correction(action="gate", low=0.7, high=1.4),
        token_mask_is_threshold_low=0.7,
        token_mask_is_threshold_high=1.4,
    ),
]
