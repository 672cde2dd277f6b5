"""Repeats, interleaved so that a slow minute of the machine meets all contestants alike."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bench.process import Measured, python, run

Task = Callable[[], Measured]


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of some repeats."""

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of at least one value."""
        found = list(values)
        return cls(statistics.median(found), min(found), max(found), len(found))

    def text(self, unit: str = "s", digits: int = 3) -> str:
        """``1.23 s (1.20–1.31)``, with so many significant digits."""
        low, high = (significant(value, digits) for value in (self.low, self.high))
        return f"{significant(self.median, digits)}{' ' if unit else ''}{unit} ({low}–{high})"


def significant(value: float, digits: int = 3) -> str:
    """Round to significant digits, without an exponent."""
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{decimals}f}"


def interleave(tasks: Mapping[str, Task], repeats: int) -> dict[str, list[Measured]]:
    """Run every task once a round, each round starting with another one."""
    names = list(tasks)
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for turn in range(repeats):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            found[name].append(tasks[name]())
    return found


def net(measured: Iterable[Measured], start: float) -> Spread:
    """Wall time less the start of the interpreter."""
    return Spread.of(one.wall - start for one in measured)


def over(above: Iterable[float], below: Iterable[float]) -> Spread:
    """Ratios round by round: both values of a ratio were measured within seconds of each other."""
    return Spread.of(a / b for a, b in zip(above, below, strict=True))


def megabytes(measured: Iterable[Measured]) -> str:
    """Peak memory, MB."""
    return Spread.of(one.peak / 1e6 for one in measured).text("MB")


def interpreter_start(repeats: int = 7) -> Spread:
    """Seconds of ``python -c pass``."""
    return Spread.of(run(python("-c", "pass")).wall for _ in range(repeats))
