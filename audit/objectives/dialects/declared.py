"""What a framework's config declares, read through its dialect."""

from __future__ import annotations

from typing import NamedTuple

from audit.objectives.objective import Objective


class Declared(NamedTuple):
    """The objective that a config declares, and what to know before relying on it."""

    objective: Objective
    unknown: tuple[str, ...] = ()
    """Config keys that look like objective options but that the dialect does not know."""
    notes: tuple[str, ...] = ()
    """Sentences on what was assumed, and on where the framework departs from the objective by a scale."""
