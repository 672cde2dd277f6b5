"""How many examples a property test draws: its own number when it gates, in proportion when it searches."""

from __future__ import annotations

from hypothesis import settings


def examples(gate: int) -> int:
    """Number of examples under the profile that runs, ``gate`` under the one that gates (100 by default)."""
    return gate * settings.default.max_examples // 100
