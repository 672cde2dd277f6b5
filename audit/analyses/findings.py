"""What a comparison found: a cause with its share, interval, confidence and evidence."""

from __future__ import annotations

from typing import Any

import msgspec

CAUSES = (
    *("objective.baseline", "objective.scale", "objective.ratio", "objective.clip", "objective.aggregation"),
    *("objective.kl", "objective.shaping", "objective.filter"),
    *("data.prompts", "data.group_size", "data.reward", "data.truncation", "data.grouping"),
    *("sampling.temperature", "sampling.support", "model.reference", "model.init"),
    *("tokens.retokenised", "tokens.mask", "numerics.mismatch", "numerics.precision"),
    *("staleness", "optimiser", "logging"),
)
"""Every cause id that a verdict may name."""


class Cause(msgspec.Struct, frozen=True):
    """One reason why two runs differ."""

    id: str
    share: float | None
    """Fraction of the difference between the two runs' token weights; None for causes outside of them."""
    low: float | None
    high: float | None
    confidence: float
    """0 to 1: how far the log itself bears the claim out; a heuristic, not yet calibrated."""
    summary: str
    evidence: dict[str, Any]


class Effect(msgspec.Struct, frozen=True):
    """One measured difference, whether or not it is a cause."""

    name: str
    a: float | None
    b: float | None
    difference: float | None
    low: float | None
    high: float | None
    n: list[int]
    note: str = ""


def finding(id_: str, confidence: float, summary: str, evidence: dict[str, Any]) -> Cause:
    """A cause outside the token weights, which has no share of them."""
    return Cause(id_, None, None, None, confidence, summary, evidence)
