"""Whether the level and the scale of a reward change over a run."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.samples import Samples
from audit.analyses.step_bins import step_bins
from audit.analyses.within_group import deviations, spread
from audit.objectives.arrays import silent
from audit.stats import Estimate, bootstrap, cluster_sums, estimate, ratio_of_sums

BINS = 5


class RewardSteps(msgspec.Struct, frozen=True):
    """Mean and spread over a few consecutive steps; n counts samples."""

    first_step: int
    last_step: int
    mean: Estimate
    spread: Estimate
    """Standard deviation within groups."""


class RewardChange(msgspec.Struct, frozen=True):
    """One reward, or component, over the run."""

    name: str
    by_step: list[RewardSteps]
    mean_change: Estimate
    """Mean over the last bin of steps minus the first."""
    spread_ratio: Estimate
    """Spread over the last bin of steps relative to the first; None where one of them has none."""


@silent
def reward_change(samples: Samples, name: str, values: np.ndarray) -> RewardChange:
    """Follow one quantity, shape (S,), over the steps of the run; steps must be known."""
    bins = step_bins(samples.step, BINS)
    of_sample, cluster = bins.code[samples.group], samples.cluster[samples.group]
    known = np.isfinite(values)
    made = []
    for at, (first, last) in enumerate(bins.spans):
        use = known & (of_sample == at)
        mean = ratio_of_sums(np.where(use, values, 0.0), use.astype(float), cluster, int(use.sum()))
        made.append(RewardSteps(first, last, mean, spread(samples, values, of_sample == at)))
    ends = (of_sample == 0, of_sample == max(len(bins.spans) - 1, 1))
    return RewardChange(name, made, *_change(samples, values, known, ends))


@silent
def _change(
    samples: Samples, values: np.ndarray, known: np.ndarray, ends: tuple[np.ndarray, np.ndarray]
) -> tuple[Estimate, Estimate]:
    # A group belongs to one step, so its own mean is that of the bin as well.
    x = deviations(samples, values)
    size = samples.per_group(known.astype(float))[samples.group]
    columns = []
    for end in ends:
        use = known & end
        paired = use & (size >= 2)
        columns += [
            np.where(use, values, 0.0),
            use,
            np.where(paired, x * x, 0.0),
            np.where(paired, 1.0 - 1.0 / np.maximum(size, 1.0), 0.0),
        ]
    sums = cluster_sums(np.column_stack(columns), samples.cluster[samples.group])

    @np.errstate(invalid="ignore", divide="ignore")
    def statistic(totals: np.ndarray) -> np.ndarray:
        t = np.moveaxis(totals, -1, 0)
        ratio = np.sqrt((t[6] / t[7]) / (t[2] / t[3]))
        return np.stack([t[4] / t[5] - t[0] / t[1], np.where(t[6] > 0, ratio, np.nan)], axis=-1)

    made = bootstrap(sums, statistic)
    n = int((known & (ends[0] | ends[1])).sum())
    return estimate(made, n, 0), estimate(made, n, 1)
