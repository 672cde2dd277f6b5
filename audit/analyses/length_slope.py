"""Slope of the log of a mean that may be 0 at times: Poisson pseudo-likelihood with one level per stratum.

Santos Silva & Tenreyro 2006, "The log of gravity"; the levels are conditioned out (Hausman, Hall & Griliches
1984). y need not be a count: only its mean has to be a exp(b x).
"""

from __future__ import annotations

import numpy as np

from audit.analyses.length_rows import NOTHING, centred
from audit.facts.rows import dense
from audit.stats import Estimate, ratio_of_sums

EXACT = 1e-9
"""Residuals of log y below this are rounding: the slope then has no error."""


def mean_slope(x: np.ndarray, y: np.ndarray, strata: np.ndarray, cluster: np.ndarray) -> Estimate:
    """Slope b of E[y] = a exp(b x), one a per stratum, y >= 0; arrays of shape (n,).

    The estimating equation sum y (x - m(b)) = 0, m the mean of x in the stratum under weights exp(b x), has
    mean 0 at the truth whatever the noise of y. The interval resamples clusters in one Newton step.
    """
    n = len(x)
    if not n:
        return NOTHING
    code = dense(strata)
    x = centred(x, code)
    if not (x * y).any():
        return Estimate(None, None, None, n)
    exact = _exact(x, y, code)
    if exact is not None:
        return Estimate(exact, exact, exact, n)
    y = y / y.mean()
    slope, step = 0.0, 1.0
    score, information = _newton(x, y, code, slope)
    for _ in range(100):
        step = float(score.sum() / information.sum())
        slope += min(max(step, -1.0), 1.0)
        score, information = _newton(x, y, code, slope)
        if abs(step) < 1e-10:
            break
    if not abs(step) < 1e-6:
        return Estimate(None, None, None, n)
    prompt = dense(cluster)
    e = ratio_of_sums(score, information, prompt, n)
    low, high = (None if bound is None else slope + bound for bound in (e.low, e.high))
    return Estimate(slope, low, high, n)


def _newton(x: np.ndarray, y: np.ndarray, code: np.ndarray, slope: float) -> tuple[np.ndarray, np.ndarray]:
    """Score and information of each response at a slope."""
    e = np.exp(slope * x)
    total = np.bincount(code, weights=e)
    mean = np.bincount(code, weights=e * x) / total
    spread = np.bincount(code, weights=e * x * x) / total - mean * mean
    return y * (x - mean[code]), y * spread[code]


def _exact(x: np.ndarray, y: np.ndarray, code: np.ndarray) -> float | None:
    """The slope of log y on x where it leaves no residual; ``x`` centred."""
    if not (y > 0).all():
        return None
    log_y = centred(np.log(y), code)
    slope = float(x @ log_y) / float(x @ x)
    if np.abs(log_y - slope * x).max() >= EXACT:
        return None
    return 0.0 if abs(slope) < EXACT else slope
