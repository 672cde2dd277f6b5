"""How unequally something is shared out: Lorenz curve, and Gini index with an interval."""

from __future__ import annotations

import numpy as np

from audit.objectives.arrays import silent
from audit.stats import LEVEL, Estimate


@silent
def gini(amounts: np.ndarray, n: int) -> Estimate:
    """Gini index of amounts that are independent of each other; ``n`` is reported with it.

    Parameters
    ----------
    amounts : ndarray, shape (C,)
        Not negative, one per holder (a prompt).

    Returns
    -------
    Estimate
        0: all hold the same; 1: one holds everything. None where there are fewer than two holders, or
        nothing is held.

    Notes
    -----
    Davidson 2009 ("Reliable inference for the Gini index", Journal of Econometrics 150, eqs. 5, 14 and 17):
    the plug-in index times C / (C - 1), which removes the bias to first order, and the standard error from
    its influence function; with a t quantile, cut to [0, 1].
    """
    held = np.sort(amounts.astype(float))
    count, total = len(held), float(held.sum())
    if count < 2 or not np.isfinite(total) or total <= 0:
        return Estimate(None, None, None, n)
    rank = (2 * np.arange(1, count + 1) - 1) / count
    plain = float(rank @ held) / total - 1.0
    value = plain * count / (count - 1)
    influence = -(plain + 1.0) * held + rank * held - 2.0 * np.cumsum(held) / count
    error = float(np.sqrt(np.sum((influence - influence.mean()) ** 2))) / total
    from scipy.special import stdtrit

    reach = float(stdtrit(count - 1, (1.0 + LEVEL) / 2)) * error
    return Estimate(min(value, 1.0), max(value - reach, 0.0), min(value + reach, 1.0), n)


@silent
def lorenz(amounts: np.ndarray, points: int = 21) -> list[tuple[float, float]]:
    """Share of holders, least first, and share of the whole that they hold, at evenly spaced shares."""
    held = np.sort(amounts.astype(float))
    total = float(held.sum())
    if not len(held) or not np.isfinite(total) or total <= 0:
        return []
    reached = np.concatenate([[0.0], np.cumsum(held) / total])
    at = np.linspace(0.0, 1.0, points)
    shares = np.interp(at, np.arange(len(reached)) / len(held), reached)
    return [(float(x), min(float(y), 1.0)) for x, y in zip(at, shares, strict=True)]
