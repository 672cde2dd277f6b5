"""Deviations from the mean of the group: what a baseline leaves of a quantity, and their covariances."""

from __future__ import annotations

import numpy as np

from audit.analyses.samples import Samples
from audit.objectives.arrays import silent
from audit.stats import Estimate, bootstrap, cluster_sums, estimate


def deviations(samples: Samples, values: np.ndarray) -> np.ndarray:
    """Values minus the mean of their group, shape (S,) or (S, K); NaN stays out of the mean, and stays NaN.

    What is left of equal values by rounding is 0.
    """
    table = values[:, None] if values.ndim == 1 else values
    made = np.empty(table.shape)
    for at, column in enumerate(table.T):
        known = np.isfinite(column)
        count = samples.per_group(known.astype(float))
        total = samples.per_group(np.where(known, column, 0.0))
        mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
        made[:, at] = column - mean[samples.group]
        made[np.abs(made[:, at]) <= 1e-12 * np.abs(column), at] = 0.0
    return made[:, 0] if values.ndim == 1 else made


@silent
def correlation(samples: Samples, a: np.ndarray, b: np.ndarray) -> Estimate:
    """Correlation of two quantities within groups, pooled over groups; n counts samples with both.

    None where one of them does not vary within any group.
    """
    both = np.isfinite(a) & np.isfinite(b)
    x, y = (deviations(samples, np.where(both, values, np.nan)) for values in (a, b))
    x, y = np.where(both, x, 0.0), np.where(both, y, 0.0)
    sums = cluster_sums(np.column_stack([x * y, x * x, y * y]), samples.cluster[samples.group])

    @np.errstate(invalid="ignore", divide="ignore")
    def statistic(totals: np.ndarray) -> np.ndarray:
        return np.asarray((totals[..., 0] / np.sqrt(totals[..., 1] * totals[..., 2]))[..., None])

    return estimate(bootstrap(sums, statistic), int(both.sum()))


@silent
def spread(samples: Samples, values: np.ndarray, among: np.ndarray | None = None) -> Estimate:
    """Standard deviation within groups, of an unbiased pooled variance; n counts samples of groups of two."""
    known = np.isfinite(values) & (np.ones(len(values), dtype=bool) if among is None else among)
    count = samples.per_group(known.astype(float))
    use = known & (count[samples.group] >= 2)
    x = np.where(use, deviations(samples, np.where(use, values, np.nan)), 0.0)
    freedom = np.where(use, 1.0 - 1.0 / np.maximum(count[samples.group], 1.0), 0.0)
    sums = cluster_sums(np.column_stack([x * x, freedom]), samples.cluster[samples.group])

    @np.errstate(invalid="ignore", divide="ignore")
    def statistic(totals: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(totals[..., 0] / totals[..., 1])[..., None])

    return estimate(bootstrap(sums, statistic), int(use.sum()))
