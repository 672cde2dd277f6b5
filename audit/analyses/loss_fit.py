"""One way to make a logged loss, as parts of an objective."""

from __future__ import annotations

from typing import Any

import msgspec

from audit.analyses.infer_clip import Bound
from audit.objectives.objective import KL, Aggregation, Filter, LossKL, Ratio
from audit.objectives.part import Part
from audit.objectives.surrogates import CISPOClip, NoClip, PPOClip

SHOWN_BY_LOSS = ("filter", "ratio", "clip", "aggregation", "kl")
"""Parts of an objective that advantages do not show, and a loss does."""


class LossFit(msgspec.Struct, frozen=True):
    """A policy loss, its aggregation and its KL, with the misfit to the logged loss."""

    surrogate: str
    """``ppo``, ``none``, ``cispo``, ``reinforce`` (-A log pi) or ``theta`` (-A: a ratio of 1)."""
    level: str
    """Of the ratio: ``token``, ``sequence``, ``product``, or ``none``."""
    epsilon_low: float | None
    epsilon_high: float | None
    dual: float | None
    dual_shows: bool
    """Whether a ratio ever went so high that a dual clip would have bounded it."""
    low_bound: Bound | None
    """Every epsilon_low that reproduces the clip fractions; None: these were not logged."""
    high_bound: Bound | None
    aggregation: str
    scope: str
    longest: bool
    """The constant of a ``-norm`` aggregation is the longest response."""
    factor: float
    """Logged loss over recomputed loss; of a sum over tokens 1 / its constant."""
    kl: str
    """``none``, ``k1``, ``k2``, ``k3``, ``abs``, or ``k3 x ratio``."""
    beta: float
    beta_range: Bound | None
    mask_truncated: bool
    residual: float
    """RMS(logged - recomputed) / RMS(logged), over windows."""

    def part(self, name: str) -> Any:
        """The part of an objective that this fit stands for; its factor is left out."""
        return {
            "filter": lambda: Filter(mask_truncated=self.mask_truncated),
            "ratio": self._ratio,
            "clip": self._clip,
            "aggregation": self._aggregation,
            "kl": self._kl,
        }[name]()

    def _ratio(self) -> Ratio:
        return Ratio() if self.level == "none" else Ratio(denominator="old", level=self.level)  # type: ignore[arg-type]

    def _clip(self) -> Part:
        if self.surrogate == "cispo":
            return CISPOClip(epsilon_high=self.epsilon_high)
        if self.surrogate == "ppo":
            return PPOClip(epsilon_low=self.epsilon_low, epsilon_high=self.epsilon_high, dual=self.dual)
        return NoClip()

    def _aggregation(self) -> Aggregation:
        constant: Any = None
        if self.aggregation.endswith("-norm"):
            constant = "longest" if self.longest else float(f"{1.0 / self.factor:.6g}")
        return Aggregation(kind=self.aggregation, scope=self.scope, constant=constant)  # type: ignore[arg-type]

    def _kl(self) -> KL:
        if self.kl == "none":
            return KL()
        form, _, times = self.kl.partition(" x ")
        gradient = "ratio" if times else "pathwise"
        return KL(loss=LossKL(coefficient=self.beta, estimator=form, gradient=gradient))  # type: ignore[arg-type]

    def describe(self, part: str) -> str:
        """One phrase about a part."""
        if part == "ratio":
            return "no ratio" if self.level == "none" else f"{self.level} ratio"
        if part == "clip":
            return self._clip_in_words()
        if part == "aggregation":
            constant = " of the longest" if self.longest else ""
            if self.aggregation.endswith("-norm") and not self.longest:
                constant = f" {1.0 / self.factor:.6g}"
            return f"{self.aggregation}{constant} per {self.scope.replace('_', '-')}"
        if part == "kl":
            return "no KL in the loss" if self.kl == "none" else f"{self.kl}, beta {self.beta:.4g}"
        return "truncated responses masked" if self.mask_truncated else "no response masked"

    def _clip_in_words(self) -> str:
        if self.surrogate == "cispo":
            return f"cispo, ratio at most {1.0 + (self.epsilon_high or 0.0):g}"
        if self.surrogate != "ppo":
            return "no clip"
        sides = {"low": (self.epsilon_low, self.low_bound), "high": (self.epsilon_high, self.high_bound)}
        told = [
            f"epsilon_{side} {_number(epsilon)}" + (f" ({bound.describe()})" if bound is not None else "")
            for side, (epsilon, bound) in sides.items()
        ]
        return ", ".join(told) + (f", dual {self.dual:g}" if self.dual else "")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
