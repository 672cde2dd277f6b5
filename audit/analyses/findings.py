"""What a comparison found: a cause with its share, interval, confidence and evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
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


class Unseen(msgspec.Struct, frozen=True):
    """A cause that these logs cannot show, and what would show it."""

    cause: str
    needs: str
    """Columns, and the runs that lack them."""


@dataclass
class Looked:
    """What a comparison of two runs came to."""

    causes: list[Cause] = field(default_factory=list)
    measured: list[Effect] = field(default_factory=list)
    """Every comparison that was made, whether or not it is a cause."""
    notes: list[str] = field(default_factory=list)
    """Oddities that both runs have: no reason for a difference."""
    unseen: list[Unseen] = field(default_factory=list)

    def add(self, other: Looked) -> None:
        """Append what another comparison came to."""
        self.causes += other.causes
        self.measured += other.measured
        self.notes += other.notes
        self.unseen += other.unseen


def evidence_of(effect: Effect, **more: Any) -> dict[str, Any]:
    """Write the numbers of an effect as the evidence of a cause."""
    numbers = {key: getattr(effect, key) for key in ("a", "b", "difference", "low", "high", "n")}
    return {"measure": effect.name, **numbers, **more}
