"""Configurations against each other, with seeds as the sample: what is beyond seed noise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.run_fields import Configuration
from audit.analyses.run_outcomes import RunOutcome
from audit.analyses.seed_noise import seed_noise
from audit.objectives.arrays import silent
from audit.stats import LEVEL

ENOUGH_SEEDS = 3
"""Fewer seeds on a side make a comparison preliminary."""
RATE = 0.05
"""False discovery rate at which configurations are called apart, over all that are compared."""


class Spread(msgspec.Struct, frozen=True):
    """Means of the runs of one configuration: the interval is that of Student's t over seeds."""

    configuration: str
    metric: str
    mean: float
    low: float | None
    high: float | None
    sd: float | None
    """Between seeds; None with one."""
    n: int
    """Seeds."""


class SeedComparison(msgspec.Struct, frozen=True):
    """Difference of two configurations in one metric, with seeds as the sample."""

    a: str
    b: str
    metric: str
    mean_a: float
    mean_b: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    adjusted_p: float | None
    """At the false discovery rate over all comparisons (Benjamini & Hochberg 1995)."""
    n: list[int]
    """Seeds of A and of B."""
    method: str
    """``welch``; ``pooled``: a side has one seed, and the spread is that of all configurations, taken to be
    one; ``none``: nothing says how far seeds scatter."""
    preliminary: bool
    """A side has fewer than three seeds."""

    @property
    def apart(self) -> bool:
        """Whether the difference is beyond seed noise."""
        return self.adjusted_p is not None and self.adjusted_p < RATE


@silent
def spreads(
    outcomes: Sequence[RunOutcome], metrics: Sequence[str], groups: Sequence[Configuration]
) -> list[Spread]:
    """Mean and spread between seeds of every configuration and metric."""
    from scipy.stats import t

    made = []
    for group, metric in itertools.product(groups, metrics):
        values = _values(outcomes, metric, group)
        n, mean = len(values), float(values.mean())
        sd = low = high = None
        if n > 1:
            sd = float(values.std(ddof=1))
            reach = float(t.ppf((1 + LEVEL) / 2, n - 1)) * sd / np.sqrt(n)
            low, high = mean - float(reach), mean + float(reach)
        made.append(Spread(group.name, metric, mean, low, high, sd, n))
    return made


def seed_comparisons(
    outcomes: Sequence[RunOutcome], metrics: Sequence[str], groups: Sequence[Configuration]
) -> list[SeedComparison]:
    """Compare every two configurations in every metric.

    Welch (1947) does not take the spreads to be equal; it needs two seeds on both sides. With one on a side
    the spread is pooled over all configurations, on as many degrees of freedom as they have.
    """
    from scipy.stats import false_discovery_control

    noise, freedom = seed_noise(outcomes, metrics, groups)
    made: list[SeedComparison] = []
    for one, other in itertools.combinations(groups, 2):
        for metric in metrics:
            a, b = _values(outcomes, metric, one), _values(outcomes, metric, other)
            n, means = [len(a), len(b)], (float(a.mean()), float(b.mean()))
            gap = means[1] - means[0]
            error, degrees, method = 0.0, 0.0, "none"
            if min(n) > 1 and (np.ptp(a) > 0 or np.ptp(b) > 0):
                parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
                error, method = float(np.sqrt(parts.sum())), "welch"
                degrees = float(parts.sum() ** 2 / (parts**2 / (np.array(n) - 1)).sum())
            elif min(n) == 1 and metric in noise:
                error, method = noise[metric] * float(np.sqrt(1 / len(a) + 1 / len(b))), "pooled"
                degrees = float(freedom)
            low, high, p = _t(gap, error, degrees)
            few = min(n) < ENOUGH_SEEDS
            made.append(
                SeedComparison(one.name, other.name, metric, *means, gap, low, high, p, None, n, method, few)
            )
    tested = [comparison.p for comparison in made if comparison.p is not None]
    adjusted = iter(false_discovery_control(tested).tolist() if tested else [])
    return [
        comparison if comparison.p is None else msgspec.structs.replace(comparison, adjusted_p=next(adjusted))
        for comparison in made
    ]


def _t(gap: float, error: float, freedom: float) -> tuple[float | None, float | None, float | None]:
    """Interval and two-sided p-value of a difference with its standard error; None without one."""
    from scipy.stats import t

    if error <= 0:
        return None, None, None
    reach = float(t.ppf((1 + LEVEL) / 2, freedom)) * error
    return gap - reach, gap + reach, 2.0 * float(t.sf(abs(gap) / error, freedom))


def _values(outcomes: Sequence[RunOutcome], metric: str, group: Configuration) -> np.ndarray:
    by_run = {outcome.run: outcome.means for outcome in outcomes}
    return np.array([by_run[run][metric].value for run in group.runs], dtype=float)
