"""AReaL: bias, scale and clip of the reward, and its normalisations; sources in areal.py."""

from __future__ import annotations

from typing import Any

from audit.objectives.dialects.config import Options
from audit.objectives.objective import (
    Baseline,
    Overlong,
    Scale,
    Shaping,
    Whiten,
)

_NORM: dict[str, Any] = {
    "mean_level": "batch",
    "mean_leave1out": False,
    "std_level": "batch",
    "std_unbiased": True,
    "eps": 1e-5,
    "group_size": 1,
}


def shaping_of(o: Options) -> Shaping:
    """(reward + bias) · scale, clipped to ±reward_clip, with the overlong penalty.

    Raises
    ------
    BadObjective
        An option that an objective cannot express is in use.
    """
    factor, bias, clip = o["actor.reward_scaling"], o["actor.reward_bias"], o["actor.reward_clip"]
    if factor <= 0:
        raise o.refuse("actor.reward_scaling", "the reward is turned round or lost")
    overlong = None
    if o["actor.overlong_reward_penalty"]:
        overlong = Overlong(
            max_length=o["actor.max_new_tokens"],
            cache=o["actor.overlong_tokens"],
            penalty=factor * o["actor.overlong_penalty_factor"],
            capped=False,
        )
        o.notes.append(f"The reward clip of ±{clip} is applied before the overlong penalty, not after it.")
    bounds = (-clip / factor - bias, clip / factor - bias)
    return Shaping(clip=bounds, factor=factor, offset=bias * factor, overlong=overlong)


def advantage_of(o: Options, gae: bool) -> tuple[Baseline, Scale]:
    """Baseline and scale of ``reward_norm``, whitening of ``adv_norm``.

    Raises
    ------
    BadObjective
        An option that an objective cannot express is in use.
    """
    whiten = _whiten(o)
    if gae:
        if o["actor.reward_norm"] is not None:
            raise o.refuse("actor.reward_norm", "the reward is normalised before a critic is subtracted")
        baseline = Baseline(kind="gae", gamma=o["actor.discount"], lam=o["actor.gae_lambda"])
        return baseline, Scale(whiten=whiten)
    for key in ("actor.discount", "actor.gae_lambda"):
        if o[key] != 1.0:
            raise o.refuse(key, "discounted returns without a critic")
    if o["actor.reward_norm"] is None:
        return Baseline(), Scale(whiten=whiten)
    norm = {**_NORM, **o["actor.reward_norm"]}
    mean, std, size, epsilon = norm["mean_level"], norm["std_level"], norm["group_size"], norm["eps"]
    if "group" in (mean, std) and size == 1:
        raise o.refuse("actor.reward_norm", "groups of group_size=1: every advantage is 0")
    loo = norm["mean_leave1out"] and mean is not None
    if std is not None and mean != std:
        raise o.refuse("actor.reward_norm", "a std that is not about its own mean")
    if loo and mean == "batch":
        raise o.refuse("actor.reward_norm", "a leave-one-out mean over the batch")
    if mean is None:
        return Baseline(), Scale(whiten=whiten)
    kinds: Any = {"group": "group_mean", "batch": "batch_mean"}
    kind = kinds[mean]
    if std is None:
        return Baseline(kind="leave_one_out" if loo else kind), Scale(whiten=whiten)
    if loo:
        # Both the deviation and its std are G / (G - 1) times those about the mean: only epsilon shrinks.
        epsilon = epsilon * (size - 1) / size
    divisor: Any = f"{std}_std"
    ddof: Any = int(norm["std_unbiased"])
    return Baseline(kind=kind), Scale(kind=divisor, ddof=ddof, epsilon=epsilon, whiten=whiten)


def _whiten(o: Options) -> Whiten | None:
    if o["actor.adv_norm"] is None:
        return None
    norm = {**_NORM, **o["actor.adv_norm"]}
    levels = (norm["mean_level"], norm["std_level"])
    if levels == (None, None):
        return None
    if levels != ("batch", "batch") or norm["mean_leave1out"]:
        raise o.refuse("actor.adv_norm", "standardised within groups of tokens, or in part")
    ddof: Any = int(norm["std_unbiased"])
    return Whiten(ddof=ddof, epsilon=norm["eps"])
