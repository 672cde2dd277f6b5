"""Estimates with intervals: the bootstrap over clusters, in one mechanism.

Responses to one prompt are not independent, so every interval resamples whole prompts. A statistic here is
any function of sums over clusters (a mean, a ratio, a cosine, a slope), which makes each resample one row of
a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec
import numpy as np

from audit.interval_tails import cut, tails, without_each

RESAMPLES = 1999
LEVEL = 0.95
FEW_CLUSTERS = 10
"""Fewer than this make any interval rough; heuristic."""
BLOCK = 2**21
"""Draws that are float64 at a time: 16 MB."""
KEPT = 2**24
"""Draws kept for the next statistic, one byte each: 16 MB for up to 8,000 clusters, at most four of them."""
ROUNDING = 1e-12
"""An interval that lies within this of 0 is what float64 leaves of an exact 0."""


class Estimate(msgspec.Struct, frozen=True):
    """A value with its 95 % interval and the number of responses behind it.

    ``low`` and ``high`` are None where fewer than two clusters leave nothing to resample.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    def excludes(self, point: float) -> bool:
        """Whether the interval exists and lies entirely on one side of ``point``."""
        if self.low is None or self.high is None:
            return False
        return self.low > point or self.high < point


@np.errstate(over="ignore", invalid="ignore")
def cluster_sums(columns: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Sum each column, shape (R, K), within clusters, shape (R,), dense int64 codes: shape (C, K)."""
    clusters = int(cluster.max(initial=-1)) + 1
    sums = np.zeros((clusters, columns.shape[1]))
    np.add.at(sums, cluster, columns)
    return sums


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def bootstrap(
    sums: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bias-corrected, accelerated and expanded percentile interval of a statistic of sums over clusters.

    Parameters
    ----------
    sums : ndarray, shape (C, K)
        One row per cluster.
    statistic
        Maps totals, shape (..., K), to values, shape (..., S).

    Returns
    -------
    value, low, high : ndarray, shape (S,)
        low and high are NaN with fewer than two clusters.

    Notes
    -----
    Clusters are drawn with replacement, C of C, :data:`RESAMPLES` times (Efron & Tibshirani 1993, ch. 13).
    Which percentiles are the ends is :func:`audit.interval_tails.tails`. Resamples on which the statistic is
    undefined are left out. A quantity that cannot be negative, as a squared correlation, is never found to
    be 0.
    """
    value = statistic(sums.sum(axis=0))
    # A prompt that contributes nothing cannot make the interval narrower.
    sums = sums[(sums != 0).any(axis=1)]
    clusters = len(sums)
    if clusters < 2:
        nothing = np.full_like(value, np.nan)
        return value, nothing, nothing
    replicates = statistic(_resampled(sums, seed))
    replicates = np.where(np.isfinite(replicates), replicates, np.nan)
    left_out = statistic(without_each(sums))
    low, high = cut(value, replicates, tails(value, replicates, left_out, clusters, LEVEL))
    return value, low, high


def _resampled(sums: np.ndarray, seed: int) -> np.ndarray:
    """Totals of each resample, shape (RESAMPLES, K), of sums of shape (C, K); memory does not grow with C."""
    clusters = len(sums)
    at_once = max(1, BLOCK // clusters)
    if RESAMPLES * clusters <= KEPT:
        drawn = _resamples(clusters, seed)
        blocks: Iterator[np.ndarray] = (
            drawn[first : first + at_once] for first in range(0, RESAMPLES, at_once)
        )
    else:
        blocks = _drawn_again(clusters, seed, at_once)
    return np.concatenate([block.astype(np.float64) @ sums for block in blocks])


@lru_cache(maxsize=4)
def _resamples(clusters: int, seed: int) -> np.ndarray:
    """How often each cluster is drawn, shape (RESAMPLES, C); the same for every statistic of a report."""
    rng = np.random.default_rng(seed)
    chance = np.full(clusters, 1.0 / clusters)
    drawn = np.empty((RESAMPLES, clusters), dtype=np.uint8)
    at_once = max(1, BLOCK // clusters)
    for first in range(0, RESAMPLES, at_once):
        block = drawn[first : first + at_once]
        # A count is about Poisson(1): beyond 255 clusters, 256 of one have a probability under 1e-500.
        block[:] = rng.multinomial(clusters, chance, size=len(block))
    drawn.flags.writeable = False
    return drawn


def _drawn_again(clusters: int, seed: int, at_once: int) -> Iterator[np.ndarray]:
    """Blocks of resamples of so many clusters that to draw them again costs less than to keep them.

    Counted draws have the distribution of :func:`_resamples` and take a tenth of its time.
    """
    rng = np.random.default_rng(seed)
    for first in range(0, RESAMPLES, at_once):
        rows = min(at_once, RESAMPLES - first)
        yield np.stack(
            [np.bincount(rng.integers(0, clusters, clusters), minlength=clusters) for _ in range(rows)]
        )


def ratio_of_sums(numerator: np.ndarray, denominator: np.ndarray, cluster: np.ndarray, n: int) -> Estimate:
    """Σ numerator / Σ denominator over responses, resampling clusters; arrays of shape (R,)."""
    sums = cluster_sums(np.column_stack([numerator, denominator]), cluster)
    return estimate(bootstrap(sums, _ratio), n)


def mean(values: np.ndarray, cluster: np.ndarray) -> Estimate:
    """Mean over responses whose value is finite, resampling clusters; arrays of shape (R,)."""
    finite = np.isfinite(values)
    _, codes = np.unique(cluster[finite], return_inverse=True)
    return ratio_of_sums(values[finite], np.ones(int(finite.sum())), codes, int(finite.sum()))


def estimate(interval: tuple[np.ndarray, np.ndarray, np.ndarray], n: int, at: int = 0) -> Estimate:
    """Wrap one entry of a :func:`bootstrap` result; NaN and inf become None."""
    value, low, high = (float(bound[at]) if np.isfinite(bound[at]) else None for bound in interval)
    if value is not None and all(abs(bound or 0.0) < ROUNDING for bound in (value, low, high)):
        value, low, high = 0.0, *(None if bound is None else 0.0 for bound in (low, high))
    return Estimate(value=value, low=low, high=high, n=n)


def _ratio(totals: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., :1] / totals[..., 1:2])


def same_mix(counts: np.ndarray) -> float:
    """P-value of Pearson's chi-square test that two rows of counts are draws of one mix.

    Parameters
    ----------
    counts : ndarray, shape (2, K)
        How often each of K kinds was drawn; a kind that never was is left out.

    Notes
    -----
    :func:`scipy.stats.chi2_contingency`, Yates's correction for K = 2 included; that module takes 0.7 s to
    import.
    """
    from scipy.special import chdtrc

    counts = counts[:, counts.sum(axis=0) > 0].astype(float)
    freedom = counts.shape[1] - 1
    if freedom < 1 or not counts.sum(axis=1).all():
        return 1.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    off = np.abs(counts - expected)
    if freedom == 1:
        off = off - np.minimum(0.5, off)
    return float(chdtrc(freedom, (off * off / expected).sum()))
