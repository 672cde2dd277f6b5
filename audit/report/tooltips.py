"""What a chart says of the mark under the pointer."""

from __future__ import annotations

import altair as alt

_COUNTED = frozenset({"n", "step", "rate", "size", "epsilon"})
"""Shown with all their digits; other numbers with five that count."""


def told(*fields: str | alt.Tooltip) -> list[alt.Tooltip]:
    """Return tooltips of fields in Altair's shorthand, as ``value:Q``, with readable numbers.

    Objects, for Altair takes three times as long to build and check a chart whose tooltips are strings.
    """
    return [field if isinstance(field, alt.Tooltip) else _one(field) for field in fields]


def _one(field: str) -> alt.Tooltip:
    name, _, kind = field.partition(":")
    if kind != "Q":
        return alt.Tooltip(field)
    return alt.Tooltip(field, format="," if name in _COUNTED else ",.5~r")
