"""SkyRL: the policy loss and the off-policy correction, as a ratio and a surrogate; sources in skyrl.py."""

from __future__ import annotations

from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.config import Options
from audit.objectives.objective import (
    Correction,
    Ratio,
)
from audit.objectives.surrogates import DPPO, SAPO, AnySurrogate, CISPOClip, NoClip, PPOClip

_CORRECTION: dict[str, Any] = {
    "tis_ratio_type": None,
    "token_tis_ratio_clip_high": 2.0,
    "sequence_tis_ratio_clip_high": 5.0,
    "sequence_mask_metric": None,
    "geo_mask_high": 1.01,
    "geo_mask_low": 0.99,
    "product_mask_high": 2.0,
    "product_mask_low": 0.5,
    "outlier_token_is_threshold_low": None,
    "outlier_token_is_threshold_high": None,
    "token_mask_is_threshold_low": None,
    "token_mask_is_threshold_high": None,
}


def surrogate(o: Options, loss: str) -> tuple[Ratio, AnySurrogate]:
    """Ratio, with its corrections, and surrogate of ``policy_loss_type``.

    Raises
    ------
    BadObjective
        An option that an objective cannot express is in use.
    """
    low, high = o["eps_clip_low"], o["eps_clip_high"]
    if loss in ("clip_cov", "kl_cov"):
        raise o.refuse("policy_loss_type", "its covariances are those of the advantage over the normaliser")
    if loss == "cross_entropy":
        raise o.refuse("policy_loss_type", "a likelihood, not a policy gradient")
    corrections = () if loss == "importance_sampling" else _corrections(o)
    ppo = PPOClip(epsilon_low=low, epsilon_high=high)
    old = Ratio(denominator="old", clamp=20.0, corrections=corrections)
    sampler = Ratio(denominator="sampler", clamp=20.0, corrections=corrections)
    # Weight rho inside the band and 0 outside, without gradient: a correction of theta on a ratio of 1.
    band = Correction(action="mask", numerator="theta", low=max(1.0 - low, 0.0), high=1.0 + high)
    sapo, dppo = o["sapo"] or {}, o["dppo"] or {}
    table: dict[str, tuple[Ratio, AnySurrogate]] = {
        "regular": (old, ppo),
        "dual_clip": (old, PPOClip(epsilon_low=low, epsilon_high=high, dual=o["clip_ratio_c"])),
        "gspo": (Ratio(denominator="old", level="sequence_token", corrections=corrections), ppo),
        "sapo": (
            old,
            SAPO(tau_positive=sapo.get("tau_pos", 1.0), tau_negative=sapo.get("tau_neg", 1.05)),
        ),
        "cispo": (old, _cispo(o)),
        "rollout_is": (Ratio(corrections=(band, *corrections)), NoClip()),
        "dppo": (
            sampler,
            DPPO(
                divergence=dppo.get("dppo_type", "binary_tv").removeprefix("binary_"),
                delta_low=dppo.get("delta_low", 0.2),
                delta_high=dppo.get("delta_high", 0.2),
            ),
        ),
        "importance_sampling": (Ratio(denominator="old"), NoClip()),
    }
    return o.one_of("policy_loss_type", table)


def _cispo(o: Options) -> CISPOClip:
    """Bounds [1, 6] in 0.3.0, [0, 5] after it."""
    low, high = (1.0, 4.0) if o.newer_than("0.3.0") else (0.0, 5.0)
    given = o["cispo"] or {}
    return CISPOClip(
        epsilon_low=given.get("cispo_eps_clip_low", low), epsilon_high=given.get("cispo_eps_clip_high", high)
    )


def _corrections(o: Options) -> tuple[Correction, ...]:
    c = {**_CORRECTION, **(o["off_policy_correction"] or {})}
    if o["use_tis"]:
        c.update(tis_ratio_type="token", token_tis_ratio_clip_high=o["tis_imp_ratio_cap"])
    if c["outlier_token_is_threshold_low"] is not None or c["outlier_token_is_threshold_high"] is not None:
        raise o.refuse("off_policy_correction", "one token drops its whole response (outlier_token)")
    made = []
    low, high = c["token_mask_is_threshold_low"], c["token_mask_is_threshold_high"]
    if low is not None and high is not None:
        made.append(Correction(action="gate", low=low, high=high))
    levels: dict[str | None, Any] = {"token": "token", "sequence": "product", "geometric": "sequence"}
    kind, metric = c["tis_ratio_type"], c["sequence_mask_metric"]
    if kind not in (None, "token", "sequence") or metric not in (None, "geometric", "product"):
        raise BadObjective(f"SkyRL has no tis_ratio_type {kind!r} with sequence_mask_metric {metric!r}.")
    if kind is not None:
        made.append(Correction(level=levels[kind], high=c[f"{kind}_tis_ratio_clip_high"]))
    if metric is not None:
        name = "geo" if metric == "geometric" else metric
        low, high = c[f"{name}_mask_low"], c[f"{name}_mask_high"]
        made.append(Correction(action="gate", level=levels.get(metric, "product"), low=low, high=high))
    return tuple(made)
