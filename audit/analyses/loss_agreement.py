"""Does a declared objective make the logged loss? And do two logs show the same part?"""

from __future__ import annotations

from typing import NamedTuple

from audit.analyses.infer_clip import Bound
from audit.analyses.loss_fit import SHOWN_BY_LOSS, LossFit
from audit.analyses.loss_inference import LossInference
from audit.analyses.loss_surrogates import Surrogate
from audit.analyses.part_words import in_words
from audit.facts.budget import with_budget
from audit.facts.rows import RunRows
from audit.objectives.objective import KL, Aggregation, Filter, Objective, Ratio
from audit.objectives.part import Part
from audit.objectives.surrogates import CISPOClip, NoClip, PPOClip

CLOSE = 1e-3
"""Relative difference of two constants that are called the same; heuristic."""


class Contradictions(NamedTuple):
    """Parts of a declaration that nothing that fits has."""

    words: list[str]
    parts: list[str]
    closest: LossFit | None
    """The fit that shares most parts with the declaration."""


def declared_surrogate(objective: Objective | None) -> Surrogate | None:
    """The policy loss that an objective declares; None where it is none of those that are recomputed."""
    if objective is None or not comparable(objective):
        return None
    clip, level = objective.clip, objective.ratio.level
    if objective.ratio.denominator != "old":
        return None
    level = "sequence" if level == "sequence_token" else level
    if isinstance(clip, PPOClip):
        return Surrogate("ppo", level, clip.epsilon_low, clip.epsilon_high, clip.dual)
    if isinstance(clip, CISPOClip):
        return Surrogate("cispo", level, None, clip.epsilon_high)
    return Surrogate("none", level)


def comparable(objective: Objective) -> bool:
    """Whether the loss of an objective is one of those that are recomputed."""
    ratio, clip, kl, kept = objective.ratio, objective.clip, objective.kl.loss, objective.filter
    plain_ratio = not ratio.corrections and ratio.clamp is None and ratio.denominator != "sampler"
    plain_clip = (
        isinstance(clip, NoClip)
        or (isinstance(clip, PPOClip) and clip.delta is None)
        or (isinstance(clip, CISPOClip) and not clip.masked and clip.epsilon_low is None)
    )
    plain_kl = kl is None or (
        kl.against is None and kl.aggregation is None and kl.input_clamp is None and kl.output_clamp is None
    )
    whole = not kept.dynamic_sampling and not kept.zero_advantage and kept.top_entropy == 1.0
    return plain_ratio and plain_clip and plain_kl and whole


def contradictions(made: LossInference, declared: Objective, rows: RunRows) -> Contradictions | None:
    """Hold a declaration against everything that fits; None where nothing can be said."""
    if made.status not in ("fits", "partial") or not comparable(declared):
        return None
    declared, note = with_budget(declared, rows)
    parts = [part for part in SHOWN_BY_LOSS if part not in made.open]
    if rows.has("loss_mask") or rows.truncated is None or not rows.truncated.any():
        # What is masked is in the mask already.
        parts = [part for part in parts if part != "filter"]
    shared = [
        (sum(fits_part(fit, getattr(declared, part), loose=bool(note)) for part in parts), fit)
        for fit in made.equivalent
    ]
    most, closest = max(shared, key=lambda each: each[0])
    if most == len(parts):
        return Contradictions([], [], closest)
    wrong = [part for part in parts if not fits_part(closest, getattr(declared, part), loose=bool(note))]
    words = [
        f"{part}: declared {in_words(getattr(declared, part))}, the log fits {closest.describe(part)}"
        for part in wrong
    ]
    return Contradictions(words, wrong, closest)


def fits_part(fit: LossFit, value: Part, *, loose: bool = False) -> bool:
    """Whether a part of an objective is that of a fit, within what the log resolves.

    Parameters
    ----------
    loose : bool
        The constant of the aggregation is not known: any is right.
    """
    if isinstance(value, Ratio):
        return fit.level == ("none" if value.denominator == "theta" else value.level.removesuffix("_token"))
    if isinstance(value, Filter):
        return fit.mask_truncated == value.mask_truncated
    if isinstance(value, KL):
        return _same_kl(fit, value)
    if isinstance(value, Aggregation):
        return _same_aggregation(fit, value, loose=loose)
    return _same_clip(fit, value)


def meet(one: LossFit, other: LossFit, part: str) -> bool:
    """Whether two fits, of two logs, may be of one objective, as far as a part goes."""
    same_dual = one.dual == other.dual or not (one.dual_shows and other.dual_shows)
    if part == "clip" and one.surrogate == other.surrogate == "ppo" and same_dual:
        sides = ((one.low_bound, other.low_bound), (one.high_bound, other.high_bound))
        if all(a is not None and b is not None and a.meets(b) for a, b in sides):
            return True
    if part == "kl" and one.kl == other.kl and one.beta_range is not None and other.beta_range is not None:
        return one.beta_range.meets(other.beta_range)
    return fits_part(one, other.part(part)) or fits_part(other, one.part(part))


def _same_kl(fit: LossFit, value: KL) -> bool:
    loss = value.loss
    if loss is None or loss.coefficient == 0.0:
        return fit.kl == "none"
    form = f"{loss.estimator} x ratio" if loss.gradient == "ratio" else loss.estimator
    known = fit.beta_range or Bound(fit.beta, fit.beta)
    return fit.kl == form and known.holds(loss.coefficient)


def _same_aggregation(fit: LossFit, value: Aggregation, *, loose: bool) -> bool:
    if (fit.aggregation, fit.scope) != (value.kind, value.scope):
        return False
    if not value.kind.endswith("-norm") or loose:
        return True
    constant = fit._aggregation().constant
    if "longest" in (constant, value.constant):
        return constant == value.constant
    assert isinstance(constant, float)
    return isinstance(value.constant, int | float) and abs(constant / value.constant - 1.0) < CLOSE


def _same_clip(fit: LossFit, value: Part) -> bool:
    if isinstance(value, PPOClip):
        if fit.surrogate == "none":
            return value.epsilon_low is None and value.epsilon_high is None
        if fit.surrogate != "ppo" or (fit.dual_shows and fit.dual != value.dual):
            return False
        low = fit.low_bound or Bound.at(fit.epsilon_low)
        high = fit.high_bound or Bound.at(fit.epsilon_high)
        return low.holds(value.epsilon_low) and high.holds(value.epsilon_high)
    if isinstance(value, CISPOClip):
        return fit.surrogate == "cispo" and fit.epsilon_high == value.epsilon_high
    return fit.surrogate in ("none", "reinforce", "theta")
