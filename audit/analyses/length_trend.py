"""Trend of length that a few odd steps cannot make: Theil-Sen slope and Mann-Kendall test.

Both are taken on the path of mean length over the run that is left when each prompt has its own level
(:mod:`.length_path`), and both look at its pairs of points: the Theil-Sen slope is the median of their slopes
(Sen 1968), Kendall's tau with time is the share that rises less the share that falls (Mann 1945).
"""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.length_bins import step_bins
from audit.analyses.length_path import path_of, path_sums
from audit.analyses.length_rows import NOTHING, LengthRows
from audit.stats import Estimate, bootstrap, estimate


class Trend(msgspec.Struct, frozen=True):
    """Trend of length of one side over the run; intervals resample prompts."""

    theil_sen: Estimate
    """Median slope, in tokens from the first step to the last."""
    tau: Estimate
    """Kendall's tau with time, -1 to 1."""
    p: float | None
    """Two-sided p value of the Mann-Kendall test. It takes the points for independent, which those of one run
    are not: it is too small rather than too large."""
    points: int
    """Points of the path (bins of steps)."""


class Trends(msgspec.Struct, frozen=True):
    """By correctness."""

    correct: Trend
    wrong: Trend
    all: Trend


def length_trends(data: LengthRows) -> Trends:
    """Measure every side; correct and wrong are empty where the log does not say which is which."""
    nothing = Trend(NOTHING, NOTHING, None, 0)
    correct, wrong = (
        trend_among(data, data.side(name)) if data.absolute else nothing for name in ("correct", "wrong")
    )
    return Trends(correct, wrong, trend_among(data, data.side("all")))


def trend_among(data: LengthRows, chosen: np.ndarray) -> Trend:
    """Trend over the rows chosen, bool of shape (R,).

    Empty where fewer than three points are linked by prompts.
    """
    use = chosen & np.isfinite(data.step)
    bins = step_bins(data.step, use)
    times, n = len(bins.step), int(use.sum())
    nothing = Estimate(None, None, None, n)
    if times < 3:
        return Trend(nothing, nothing, None, times)
    sums = path_sums(data, use, bins)
    path = path_of(sums.sum(axis=0), times)
    if np.isnan(path).any():
        return Trend(nothing, nothing, None, times)
    early, late = np.triu_indices(times, 1)
    span = (bins.step[late] - bins.step[early]) / data.run_span

    def pairs(totals: np.ndarray) -> np.ndarray:
        values = path_of(totals, times)
        rise = values[..., late] - values[..., early]
        tau = np.where(np.isnan(rise), np.nan, np.sign(rise)).mean(axis=-1)
        return np.stack([np.median(rise / span, axis=-1), tau], axis=-1)

    interval = bootstrap(sums, pairs)
    return Trend(estimate(interval, n), estimate(interval, n, 1), mann_kendall(bins.step, path), times)


def mann_kendall(step: np.ndarray, path: np.ndarray) -> float | None:
    """Two-sided p value, shape (T,) both; None for a path that does not move."""
    from scipy.stats import kendalltau

    return float(kendalltau(step, path).pvalue) if np.ptp(path) > 0 else None
