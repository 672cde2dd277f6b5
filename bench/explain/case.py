"""What is injected into a pair of runs, and what of it a log can show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.explain.log import Log

Make = Callable[[Sequence[int]], list[Log]]
"""One run per seed."""


@dataclass(frozen=True)
class Case:
    """Pairs with one cause. A and B never share a seed: a pair differs as two real runs do."""

    cause: str | None
    """The cause id that is right; None for pairs that differ in their seeds alone."""
    variant: str
    """What differs, in words."""
    a: Make
    b: Make
    source: str = "toy"
    seen_blind: bool = True
    """Whether a log without a declaration holds what would show the cause."""
    shown_by: str = ""
    """The column or metric that shows it, or would."""
    also: tuple[str, ...] = ()
    """Other ids that are as right: what was injected is both."""
    also_blind: tuple[str, ...] = ()
    """Other ids that say the same of a blind log, which cannot tell them apart."""

    def right(self, *, blind: bool) -> tuple[str, ...]:
        """Ids that count as right."""
        if self.cause is None:
            return ()
        return (self.cause, *self.also, *(self.also_blind if blind else ()))
