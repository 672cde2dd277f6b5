"""verl's policy losses. Where they depart from the papers:

- ``vanilla`` has always a dual clip, ``clip_ratio_c`` (3), since 0.4.0; since then ``clip_ratio`` alone does
  nothing, because ``clip_ratio_low`` and ``clip_ratio_high`` have defaults of their own.
- log-ratios are clamped to ±20 since 0.4.1, without gradient beyond (not in clip_cov, kl_cov, geo_mean, dro).
- ``gspo`` gives each token the gradient of its own ratio; the ratio is at most e^10.
- ``cispo`` keeps PPO's lower bound too. ``dppo_*`` stops the ratio, at most ``clip_ratio_c``; its
  ``clip_ratio_*`` are divergences.
- ``geo_mean`` takes ``clip_ratio_*`` as widths in log-ratio.
- ``clip_cov`` draws at random: the objective holds the expectation.

Read: verl/trainer/ppo/core_algos.py ``compute_policy_loss_*``; versions as in
:mod:`~audit.objectives.dialects.verl`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from audit.errors import BadObjective
from audit.objectives.dialects.verl_config import Version, require_since
from audit.objectives.objective import Ratio
from audit.objectives.surrogates import (
    DPPO,
    GMPO,
    SAPO,
    AnySurrogate,
    CISPOClip,
    ClipCov,
    KLCov,
    NoClip,
    PPOClip,
    Regression,
)

_COMPARES_POLICIES = ("dppo_tv", "dppo_kl")


def loss_mode(config: Mapping[str, Any], version: str) -> str:
    """Return the policy loss that runs.

    Raises
    ------
    BadObjective
        This version does not have it.
    """
    mode: str = config.get("actor.policy_loss.loss_mode") or "vanilla"
    require_since("losses", mode, version)
    return mode


def surrogate(mode: str, config: Mapping[str, Any], number: Version) -> AnySurrogate:
    """Return the surrogate of a loss.

    Raises
    ------
    BadObjective
    """
    low, high = clip_range(config)
    if mode == "vanilla":
        return _vanilla(config, number)
    if mode == "dro":
        return _dro(config)
    if mode in _COMPARES_POLICIES:
        divergence: Literal["tv", "kl"] = "tv" if mode == "dppo_tv" else "kl"
        cap = config["actor.clip_ratio_c"]
        return DPPO(divergence=divergence, delta_low=low, delta_high=high, cap=cap)
    made: dict[str, Callable[[], AnySurrogate]] = {
        "gpg": NoClip,
        "gspo": lambda: PPOClip(epsilon_low=low, epsilon_high=high),
        "cispo": lambda: CISPOClip(epsilon_low=low, epsilon_high=high),
        "geo_mean": lambda: GMPO(epsilon_low=low, epsilon_high=high),
        "sapo": lambda: SAPO(tau_positive=config["actor.tau_pos"], tau_negative=config["actor.tau_neg"]),
        "clip_cov": lambda: ClipCov(
            epsilon_low=low,
            epsilon_high=high,
            fraction=_share(config, "clip_cov_ratio"),
            low=_given(config, "clip_cov_lb", 1.0),
            high=_given(config, "clip_cov_ub", 5.0),
        ),
        "kl_cov": lambda: KLCov(
            fraction=_share(config, "kl_cov_ratio"), coefficient=_given(config, "ppo_kl_coef", 1.0)
        ),
    }
    return made[mode]()


def _vanilla(config: Mapping[str, Any], number: Version) -> PPOClip:
    low, high = clip_range(config)
    if number < (0, 4):
        return PPOClip(epsilon_low=low, epsilon_high=high)
    dual = config["actor.clip_ratio_c"]
    if dual <= 1.0:
        raise BadObjective(f"verl refuses actor.clip_ratio_c={dual}: it must be greater than 1.")
    return PPOClip(epsilon_low=low, epsilon_high=high, dual=dual)


def _dro(config: Mapping[str, Any]) -> Regression:
    beta = config.get("actor.policy_loss.dro_beta")
    if not beta or beta <= 0:
        raise BadObjective(
            "verl's actor.policy_loss.loss_mode='dro' needs a positive actor.policy_loss.dro_beta."
        )
    return Regression(tau=float(beta))


def ratio(mode: str, number: Version, *, on_policy: bool, sampler: bool) -> Ratio:
    """Return the ratio of a loss, without corrections.

    Parameters
    ----------
    on_policy : bool
        The old policy is theta, detached.
    sampler : bool
        The sampler's log-probs stand in for the old ones (bypass).
    """
    if mode == "gpg" or (on_policy and mode not in _COMPARES_POLICIES):
        return Ratio()
    clamped = mode in ("vanilla", "sapo", "cispo") and number >= (0, 4, 1)
    return Ratio(
        denominator="sampler" if sampler else "old",
        level="sequence_token" if mode == "gspo" else "token",
        clamp=20.0 if clamped else None,
    )


def clip_range(config: Mapping[str, Any]) -> tuple[float, float]:
    """Return clip_ratio_low and clip_ratio_high, which fall back to clip_ratio where they are null."""
    alone = config["actor.clip_ratio"]
    low, high = config.get("actor.clip_ratio_low"), config.get("actor.clip_ratio_high")
    return float(alone if low is None else low), float(alone if high is None else high)


def _given(config: Mapping[str, Any], name: str, default: float) -> float:
    value = config.get(f"actor.policy_loss.{name}")
    return default if value is None else float(value)


def _share(config: Mapping[str, Any], name: str) -> float:
    share = _given(config, name, 2e-4)
    if not 0.0 < share <= 1.0:
        raise BadObjective(f"verl's actor.policy_loss.{name}={share} must lie in (0, 1].")
    return share
