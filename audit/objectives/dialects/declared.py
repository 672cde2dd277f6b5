"""What a framework's config declares, read through its dialect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from audit.errors import closest
from audit.objectives.objective import Objective


class Declared(NamedTuple):
    """The objective that a config declares, and what to know before relying on it."""

    objective: Objective
    unknown: tuple[str, ...] = ()
    """Config keys that look like objective options but that the dialect does not know."""
    notes: tuple[str, ...] = ()
    """Sentences on what was assumed, and on where the framework departs from the objective by a scale."""


def hints(framework: str, unknown: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return a note on every unknown key that is close to the name of an option, without its levels."""
    leaves = sorted({key.rpartition(".")[2] for key in known})
    near = {key: closest(key.rpartition(".")[2], leaves) for key in unknown}
    return [f"{framework} has no option {key!r} that was read.{near[key]}" for key in unknown if near[key]]
