"""Base of the structs that make an objective, and the types they share."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]

Estimator = Literal["k1", "k2", "k3", "abs"]
"""Estimators of a KL on sampled tokens; see :mod:`audit.objectives.kl`."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every part: frozen, keyword-only, unknown fields refused."""

    def problems(self) -> list[str]:
        """Contradictions between the fields, one sentence each."""
        return []
