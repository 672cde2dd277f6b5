"""How much an objective made prompts count in a run, beside what it does by exact calculation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from audit.analyses.possible_groups import possible_groups
from audit.analyses.rate_bins import EDGES
from audit.analyses.samples import Samples
from audit.analyses.visits import NEIGHBOURS, left_out_rate, neighbours
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.weigh import coefficients_of
from audit.objectives.arrays import silent
from audit.objectives.objective import Objective
from audit.stats import FEW_CLUSTERS, Estimate, bootstrap, cluster_sums, estimate

_APART = 1e6
"""A beta distribution with a + b below one over this holds the rates 0 and 1 alone."""


class FactorBin(msgspec.Struct, frozen=True):
    """Prompt-weight factor over the groups whose prompt has a success rate in a bin; n counts groups."""

    low: float
    high: float
    rate: Estimate
    """Mean success rate of the groups, each weighed by its p (1 - p)."""
    observed: Estimate
    """Sum of A (r - p) over that of leave-one-out; 1 is the unbiased gradient."""
    expected: float | None
    """What the objective gives such prompts by exact calculation; None where no group has any signal."""
    difference: Estimate
    """Without an interval where fewer than 10 prompts have any signal."""


class ObjectiveFactor(msgspec.Struct, frozen=True):
    """Observed and expected factors under one objective."""

    objective: str
    bins: list[FactorBin]
    left_out: int
    """Groups of another size than the most frequent, or with too few other visits to their prompt."""


def prepared_factor(
    rows: RunRows, samples: Samples, bins: np.ndarray, objective: Objective, stated: Objective
) -> PreparedFactor:
    """Sum up what the prompt-weight factor of a run by success-rate bin is made of.

    Parameters
    ----------
    bins : ndarray, shape (N,)
        See :func:`~.rate_bins.rate_bins`.
    objective : Objective
        Gives the advantages; may be the run's own on the advantages that the trainer logged.
    stated : Objective
        What the advantages should be: the same without logged advantages.

    Raises
    ------
    BadObjective
        The advantage is not a function of the group's rewards.
    MissingColumn, BadLog
        The log lacks what the objective needs.
    AuditError
        The reward does not have two values.

    Notes
    -----
    The factor is E[sum A (r - p)] / E[sum A_LOO (r - p)], here a ratio of sums over the groups of a bin, with
    p from other visits. The expectation is the exact one
    (:func:`~.prompt_factor.prompt_factors`) over the rates that the bin holds: they are taken to follow a
    beta distribution whose first two moments, under the weights p (1 - p) by which prompts enter the ratio,
    are those of the groups. Their counts k give them without bias: k (k - 1) (G - k) / (G - 2) for p,
    k (k - 1) (k - 2) (G - k) / ((G - 2) (G - 3)) for p², over k (G - k). So a bin that mixes rates, or was
    filled by rates that were estimated badly, is not held against the wrong number; one rate for the whole
    bin would be, for the factor is convex.
    """
    values = np.unique(samples.reward)
    if len(values) != 2:
        msg = f"a reward with two values (this one has {len(values)})"
        raise AuditError(msg)
    size = samples.typical_size
    curve = _Curve(stated, size, values)
    use = (bins >= 0) & (samples.size == size)
    columns = _columns(rows, samples, objective, values)
    use &= np.isfinite(columns).all(axis=1)
    return PreparedFactor(objective.name, columns, use, curve)


def observed_factors(
    samples: Samples, bins: np.ndarray, prepared: Sequence[PreparedFactor]
) -> list[ObjectiveFactor]:
    """Measure the factors under several objectives, bin by bin: those of one bin share their resamples."""
    made: list[list[FactorBin]] = [[] for _ in prepared]
    for at, span in enumerate(pairwise(EDGES)):
        for found, each in zip(made, prepared, strict=True):
            here = each.use & (bins == at)
            if here.any():
                found.append(_bin(span, each.columns[here], samples.cluster[here], each.curve))
    return [
        ObjectiveFactor(each.objective, found, left_out=int((~each.use).sum()))
        for each, found in zip(prepared, made, strict=True)
    ]


@np.errstate(over="ignore", invalid="ignore")
def _columns(rows: RunRows, samples: Samples, objective: Objective, values: np.ndarray) -> np.ndarray:
    """Per group: sum of A (r - p), the same of leave-one-out, and the two sums that place the rate."""
    use = samples.of_row >= 0
    rows_of = np.bincount(samples.of_row[use])
    advantage = coefficients_of(rows, objective).advantage[use]
    mean = np.bincount(samples.of_row[use], weights=advantage) / rows_of
    success = (samples.reward - values[0]) / (values[1] - values[0])
    total, size = samples.per_group(mean), samples.per_group(np.abs(mean))
    rate = _centre(samples, success, total, size)[samples.group]
    n, k = samples.size.astype(float), samples.per_group(success)
    unit = values[1] - values[0]
    pairs = k * (n - k)
    second = pairs * (k - 1) / np.maximum(n - 2, 1)
    third = second * (k - 2) / np.maximum(n - 3, 1)
    own = samples.per_group(mean * (success - rate)) * unit
    return np.column_stack([own, pairs / np.maximum(n - 1, 1) * unit**2, pairs, second, third])


def _centre(samples: Samples, success: np.ndarray, total: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Success rate to centre the rewards of each group by, shape (N,); NaN where there is none.

    It must owe nothing to the visits that chose the bin: those that were unlucky fill the bins of hard
    prompts. So it comes from the visits beyond them; where advantages sum to 0 (up to
    float32), any will do.
    """
    judged = replace(samples, correct=success)
    around = neighbours(judged, 2 * NEIGHBOURS)
    around[np.cumsum(around >= 0, axis=1) <= NEIGHBOURS] = -1
    return np.where(np.abs(total) <= 1e-5 * size, 0.0, left_out_rate(judged, around))


class _Curve:
    """What an objective gives groups of G responses, over beta distributions of the success rate."""

    @silent
    def __init__(self, objective: Objective, size: int, values: np.ndarray) -> None:
        groups = possible_groups(objective, size, tuple(map(float, values)))
        order = np.argsort(groups.counts[:, 1])
        won, total = groups.advantage[order, 1], groups.advantage[order].sum(axis=1)
        others = np.arange(size)
        gap = won[1:] / (others + 1) - (total - won)[:-1] / (size - others)
        self._size = size
        self._gap = gap / float(values[1] - values[0])
        """Advantage of a right response less that of a wrong one, by how many of the others are right."""

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Factor over rates whose mean and variance under the weights p (1 - p) are given; any one shape.

        A prompt enters by E[sum A (r - p)] = p (1 - p) G E[gap]: the gap of ``_gap`` over the G - 1 others,
        which under a beta distribution of p are beta-binomial. So the weighted distribution alone is needed:
        that of the prompts themselves has no finite mass where many are hardly ever solved.
        """
        from scipy.special import gammaln

        G, others = self._size, np.arange(self._size)
        with np.errstate(divide="ignore", invalid="ignore"):
            # 1 / (a + b): 0 for a single rate, infinite for the rates 0 and 1 alone.
            spread = np.where(variance > 0, variance / np.maximum(mean * (1.0 - mean) - variance, 0.0), 0.0)
            steps = others[:-1] * np.minimum(spread, _APART)[..., None]
            right, wrong = (np.log(rate[..., None] + steps) for rate in (mean, 1.0 - mean))
        ways = gammaln(G) - gammaln(others + 1) - gammaln(G - others)
        every = np.log1p(steps).sum(axis=-1, keepdims=True)
        log = ways + _running(right) + _running(wrong)[..., ::-1] - every
        return np.asarray((np.exp(log) * self._gap).sum(axis=-1))

    @silent
    def compare(self, totals: np.ndarray) -> np.ndarray:
        """Rate, observed, expected and their difference from the sums of :func:`_columns`."""
        own, unbiased, pairs, second, third = np.moveaxis(totals, -1, 0)
        observed, rate = own / unbiased, second / pairs
        variance = third / pairs - rate**2
        if self._size < 4:
            # Moments that the groups cannot give; such small groups hardly have a curve either.
            rate, variance = np.where(pairs > 0, 0.5, np.nan), np.zeros_like(rate)
        expected = np.where(np.isfinite(observed), self.expected(rate, variance), np.nan)
        return np.stack([rate, observed, expected, observed - expected], axis=-1)


def _running(logs: np.ndarray) -> np.ndarray:
    """Sums of the first 0, 1, … of the last axis."""
    none = np.zeros((*logs.shape[:-1], 1))
    return np.concatenate([none, np.cumsum(logs, axis=-1)], axis=-1)


class PreparedFactor(NamedTuple):
    """What the factors of one objective are made of."""

    objective: str
    columns: np.ndarray
    """Per group, see :func:`_columns`; shape (N, 5)."""
    use: np.ndarray
    """Groups that enter, bool, shape (N,)."""
    curve: _Curve


def _bin(span: tuple[float, float], columns: np.ndarray, cluster: np.ndarray, curve: _Curve) -> FactorBin:
    sums = cluster_sums(columns, cluster)
    made = bootstrap(sums, curve.compare)
    rate, observed, expected, difference = (estimate(made, len(columns), at) for at in range(4))
    if int((sums[:, 1] > 0).sum()) < FEW_CLUSTERS:
        # The beta distribution is fitted anew to every resample, and follows the oddities of a few prompts.
        difference = msgspec.structs.replace(difference, low=None, high=None)
    return FactorBin(*span, rate, observed, expected.value, difference)
