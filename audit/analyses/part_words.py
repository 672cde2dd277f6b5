"""Parts of an objective as phrases of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from audit.objectives.objective import KL, Aggregation, Filter, Ratio
from audit.objectives.part import Part
from audit.objectives.surrogates import CISPOClip, NoClip, PPOClip


def in_words(value: Part) -> str:
    """One phrase about a declared part."""
    words = _WORDS.get(type(value))
    return type(value).__name__ if words is None else words(value)


def _ratio(ratio: Ratio) -> str:
    return "no ratio" if ratio.denominator == "theta" else f"{ratio.level} ratio"


def _aggregation(aggregation: Aggregation) -> str:
    constant = "" if aggregation.constant is None else f" {aggregation.constant}"
    return f"{aggregation.kind}{constant} per {aggregation.scope.replace('_', '-')}"


def _kl(kl: KL) -> str:
    loss = kl.loss
    if loss is None or loss.coefficient == 0.0:
        return "no KL in the loss"
    times = " x ratio" if loss.gradient == "ratio" else ""
    return f"{loss.estimator}{times}, beta {loss.coefficient:g}"


def _filter(kept: Filter) -> str:
    return "truncated responses masked" if kept.mask_truncated else "no response masked"


def _ppo(clip: PPOClip) -> str:
    return f"epsilon_low {clip.epsilon_low}, epsilon_high {clip.epsilon_high}"


def _cispo(clip: CISPOClip) -> str:
    return f"cispo, ratio at most {1.0 + (clip.epsilon_high or 0.0):g}"


_WORDS: dict[type, Callable[[Any], str]] = {
    Ratio: _ratio,
    Aggregation: _aggregation,
    KL: _kl,
    Filter: _filter,
    PPOClip: _ppo,
    CISPOClip: _cispo,
    NoClip: lambda _: "no clip",
}
