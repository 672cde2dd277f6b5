"""A symmetric matrix of distances between runs, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.stats import Estimate, estimate


class DistanceMatrix(msgspec.Struct, frozen=True):
    """Distances of every pair of runs: symmetric, 0 on the diagonal."""

    measure: str
    unit: str
    runs: list[str]
    values: list[list[Estimate | None]]
    """Row and column in the order of ``runs``; None where a run cannot be compared."""
    on: list[str]
    """Runs whose rollouts were used."""
    n: int
    """Responses behind every distance."""
    note: str = ""

    def array(self) -> np.ndarray:
        """The values alone, float64, shape (N, N), NaN where a run cannot be compared."""
        return np.array(
            [[np.nan if e is None or e.value is None else e.value for e in row] for row in self.values]
        ).reshape(len(self.runs), len(self.runs))


def pairs_of(count: int) -> list[tuple[int, int]]:
    """Every pair (i, j) with i < j, row by row."""
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def squared(
    interval: tuple[np.ndarray, np.ndarray, np.ndarray], n: int, index: Sequence[int | None]
) -> list[list[Estimate | None]]:
    """Lay out the intervals of the pairs of K kinds as a matrix over runs.

    Parameters
    ----------
    interval
        Of K (K - 1) / 2 distances, in the order of :func:`pairs_of`.
    index : sequence of int or None, length N
        Kind of each run; None: it cannot be compared.
    """
    kinds = max([at for at in index if at is not None], default=-1) + 1
    place = {pair: at for at, pair in enumerate(pairs_of(kinds))}
    same = Estimate(0.0, 0.0, 0.0, n)

    def cell(a: int | None, b: int | None) -> Estimate | None:
        if a is None or b is None:
            return None
        return same if a == b else estimate(interval, n, place[min(a, b), max(a, b)])

    return [[cell(a, b) for b in index] for a in index]
