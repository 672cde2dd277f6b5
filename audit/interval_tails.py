"""Where to cut the resamples of a bootstrap, so that intervals of skewed statistics of few clusters hold.

Bias-corrected and accelerated percentiles (Efron 1987) with three additions: both corrections are shrunk by
what of the acceleration is noise; a t quantile stands for the normal one, with as many degrees of freedom as
clusters carry the variance; the estimate itself is never outside. They were chosen by simulation, see
docs/calibration.md.
"""

from __future__ import annotations

import numpy as np

LEFT_OUT = 1000
"""Leave-one-out values at most; of more clusters, groups of them are left out."""
BIAS_AT_MOST = 1.0
"""Of the bias correction, in standard errors: beyond it resamples tell little of the bias; heuristic."""
ACCELERATION_AT_MOST = 0.2
"""Beyond it the mapping of the tails turns back on itself within reach of a t quantile; heuristic."""
TIE = 1e-12
"""A resample within this of the estimate, relative to the largest, repeats it."""


def tails(
    value: np.ndarray, replicates: np.ndarray, left_out: np.ndarray, clusters: int, level: float
) -> np.ndarray:
    """Probabilities to cut off below and above, shape (2, S).

    Parameters
    ----------
    value : ndarray, shape (S,)
        The statistic of all clusters.
    replicates : ndarray, shape (B, S)
        The statistic of each resample; NaN where it is undefined.
    left_out : ndarray, shape (J, S)
        The statistic without each cluster (or group of clusters); NaN where it is undefined.
    clusters : int
        How many there are, 2 at least.
    level : float
        Coverage, as 0.95.

    Notes
    -----
    With z the quantile, z0 the bias correction and a the acceleration: Φ(z0 + (z0 ± z) / (1 - a (z0 ± z))),
    z0 = Φ⁻¹(share of resamples below the estimate, ties by half) and a = Σ d³ / (6 (Σ d²)^1.5), d the mean
    of the leave-one-out values minus each (Efron & Tibshirani 1993, sec. 14.3).

    The variance of Σ d³ is about Σ d⁶, so a² exceeds the square of the truth by the share Σ d⁶ / (Σ d³)²:
    a and z0 are multiplied by the root of 1 minus that, 0 where it is negative. A difference between two
    runs, which is symmetric, would else be covered too seldom.

    Without skewness what remains is the expanded percentile interval of Hesterberg (2015, "What teachers
    should know about the bootstrap", sec. 5.1): a t quantile and the factor sqrt(C / (C - 1)). Here C counts
    the clusters that carry the variance, 3 (Σ d²)² / Σ d⁴ and at most all: of C normal ones that is C, for
    the fourth moment of a normal is 3 σ⁴.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    skew, noise, carriers = _moments(left_out, clusters)
    shrink = np.sqrt(np.maximum(0.0, 1.0 - noise))
    z0 = shrink * np.clip(ndtri(_share_below(value, replicates)), -BIAS_AT_MOST, BIAS_AT_MOST)
    a = shrink * np.clip(skew / 6.0, -ACCELERATION_AT_MOST, ACCELERATION_AT_MOST)
    freedom = carriers - 1.0
    reach = stdtrit(freedom, (1.0 + level) / 2) * np.sqrt(carriers / freedom)
    made = []
    for z in (z0 - reach, z0 + reach):
        slope = 1.0 - a * z
        # Where the mapping turns back, the tail is empty.
        mapped = np.where(slope > 0, z0 + z / np.where(slope > 0, slope, 1.0), np.copysign(np.inf, z))
        made.append(ndtr(mapped))
    return np.array(made)


def cut(
    value: np.ndarray, replicates: np.ndarray, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles of the defined resamples, linear between neighbours, widened to hold the estimate.

    Parameters
    ----------
    replicates : ndarray, shape (B, S)
    probabilities : ndarray, shape (2, S)

    Returns
    -------
    low, high : ndarray, shape (S,)
        NaN where no resample is defined.
    """
    ordered = np.sort(replicates, axis=0)
    last = np.isfinite(ordered).sum(axis=0) - 1
    column = np.arange(ordered.shape[1])
    ends = []
    for probability in probabilities:
        place = probability * np.maximum(last, 0)
        under = np.floor(place).astype(np.int64)
        lower, upper = ordered[under, column], ordered[np.minimum(under + 1, np.maximum(last, 0)), column]
        ends.append(lower + (place - under) * (upper - lower))
    known = np.isfinite(value) & (last >= 0)
    low = np.where(known, np.minimum(ends[0], value), ends[0])
    high = np.where(known, np.maximum(ends[1], value), ends[1])
    return low, high


def without_each(sums: np.ndarray) -> np.ndarray:
    """Totals without each cluster, shape (J, K), of sums of shape (C, K).

    Of more than :data:`LEFT_OUT` clusters every J-th is left out together: skewness over the square root of
    the number, which is all that is asked of them, is the same for groups.
    """
    if len(sums) > LEFT_OUT:
        grouped = np.zeros((LEFT_OUT, sums.shape[1]))
        for first in range(0, len(sums), LEFT_OUT):
            part = sums[first : first + LEFT_OUT]
            grouped[: len(part)] += part
        sums = grouped
    return np.asarray(sums.sum(axis=0) - sums)


def _share_below(value: np.ndarray, replicates: np.ndarray) -> np.ndarray:
    """Share of the defined resamples that are below the estimate, ties by half; 1/2 where there are none."""
    defined = np.isfinite(replicates)
    count = defined.sum(axis=0)
    largest = np.abs(replicates).max(axis=0, initial=0.0, where=defined)
    with np.errstate(invalid="ignore"):
        tied = np.abs(replicates - value) <= TIE * largest
        below = (replicates < value) & ~tied
    share = (below.sum(axis=0) + 0.5 * tied.sum(axis=0)) / np.maximum(count, 1)
    # A share of 0 of B resamples says: less than one of them.
    inside = np.clip(share, 0.5 / np.maximum(count, 1), 1.0 - 0.5 / np.maximum(count, 1))
    return np.where((count > 0) & np.isfinite(value), inside, 0.5)


def _moments(left_out: np.ndarray, clusters: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ d³ / (Σ d²)^1.5, the noise of it relative to its square, and how many clusters carry the variance."""
    defined = np.isfinite(left_out)
    count = np.maximum(defined.sum(axis=0), 1)
    d = np.where(defined, left_out, 0.0)
    d = np.where(defined, d.sum(axis=0) / count - d, 0.0)
    size = np.abs(d).max(axis=0, initial=0.0)
    # In units of the largest: sixth powers overflow.
    d = d / np.where(size > 0, size, 1.0)
    square = d * d
    second, third = square.sum(axis=0), (square * d).sum(axis=0)
    fourth, sixth = (square * square).sum(axis=0), (square * square * square).sum(axis=0)
    some = second > 0
    skew = np.where(some, third / np.where(some, second, 1.0) ** 1.5, 0.0)
    noise = np.where(third != 0, sixth / np.where(third != 0, third * third, 1.0), np.inf)
    equal = np.where(some, 3.0 * second * second / np.where(some, fourth, 1.0), np.inf)
    # Of groups of clusters the kurtosis is that of a sum: many are then as good as all.
    return skew, noise, np.minimum(equal, float(clusters))
