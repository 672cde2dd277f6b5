"""Base of the structs that make an objective, and the number types they use."""

from __future__ import annotations

from typing import Annotated

import msgspec

NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every part: frozen, keyword-only, unknown fields refused."""

    def problems(self) -> list[str]:
        """Contradictions between the fields, one sentence each."""
        return []
