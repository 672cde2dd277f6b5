"""How lengths are distributed, by correctness, early, in the middle and late in a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from audit.analyses.length_rows import LengthRows, length_rows
from audit.facts.rows import RunRows

POINTS = 101
"""Points of a curve: the quantiles at 0, 1, … 100 %."""
THIRDS: tuple[Third, ...] = ("early", "middle", "late")
Third = Literal["early", "middle", "late"]
Side = Literal["correct", "wrong"]


class Ecdf(msgspec.Struct, frozen=True):
    """Lengths of one side in one third of the steps, none of them an estimate: what was logged."""

    side: Side
    third: Third
    first_step: int
    last_step: int
    n: int
    """Responses."""
    median: float
    length: list[float]
    """Lengths at the levels, rising."""
    level: list[float]
    """Share of the responses that are no longer than that."""


class LengthDistributions(msgspec.Struct, frozen=True):
    """Empirical distributions of length of a run."""

    run: str
    unit: str
    """What lengths are counted in."""
    correct_is: str
    curves: list[Ecdf]
    """Sides and thirds without a response have none."""
    schema: str = "rlaudit.length_distributions.v1"


def length_distributions(rows: RunRows) -> LengthDistributions:
    """Describe the lengths of correct and of wrong responses in the thirds of a run's distinct steps.

    Raises
    ------
    MissingColumn
        The log has no lengths of any kind.
    """
    data = length_rows(rows)
    return LengthDistributions(rows.run.run_id, data.unit, data.correct_is, list(_curves(data)))


def _curves(data: LengthRows) -> Iterator[Ecdf]:
    known = data.use & np.isfinite(data.step)
    for third, steps in zip(THIRDS, np.array_split(np.unique(data.step[known]), 3), strict=True):
        if not len(steps):
            continue
        here = known & (data.step >= steps[0]) & (data.step <= steps[-1])
        for side in ("correct", "wrong"):
            values = data.length[here & data.side(side)]
            if len(values):
                length, level = ecdf(values)
                yield Ecdf(
                    side,
                    third,
                    int(steps[0]),
                    int(steps[-1]),
                    len(values),
                    float(np.median(values)),
                    length,
                    level,
                )


def ecdf(values: np.ndarray) -> tuple[list[float], list[float]]:
    """Return at most :data:`POINTS` distinct values, rising, and the share of all that are no larger.

    Parameters
    ----------
    values : ndarray, shape (n,)
        n >= 1, finite.
    """
    ordered = np.sort(values)
    at = np.unique(np.quantile(ordered, np.linspace(0, 1, POINTS), method="inverted_cdf"))
    level = np.searchsorted(ordered, at, side="right") / len(ordered)
    return at.tolist(), level.tolist()
