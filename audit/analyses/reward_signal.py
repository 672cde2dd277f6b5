"""Which components make the signal: their shares of the reward's variance within groups, and what cancels."""

from __future__ import annotations

from itertools import combinations

import msgspec
import numpy as np

from audit.analyses.reward_components import Components
from audit.analyses.samples import Samples, spans
from audit.analyses.shares import share_of
from audit.analyses.within_group import correlation, deviations
from audit.objectives.arrays import silent
from audit.stats import Estimate, bootstrap, cluster_sums, estimate

MOST_PAIRS = 15


class ComponentShare(msgspec.Struct, frozen=True):
    """What one component adds to the reward, and to its variance within groups."""

    name: str
    weight: float | None
    """Factor by which it enters the reward; None where it never varies, and for the rest."""
    share: Estimate
    """Cov(weight · component, reward) / Var(reward) within groups; all shares sum to 1. n: samples."""


class Pair(msgspec.Struct, frozen=True):
    """Two components."""

    a: str
    b: str
    correlation: Estimate
    """Within groups. n: samples with both."""


class Signal(msgspec.Struct, frozen=True):
    """How components make the reward."""

    how: str
    """Where the weights come from: ``sum`` (all 1), ``fitted`` (exact), ``fitted with misfit``."""
    shares: list[ComponentShare]
    rest: Estimate
    """Share of the variance that the components do not explain."""
    cancelled: Estimate
    """1 - Var(reward) / sum of the variances of what is added: above 0 components cancel, below 0 they add
    up. n: samples."""
    cancelled_groups: Estimate
    """Share of groups whose reward is the same for all samples although a component varies. n: groups."""
    pairs: list[Pair]
    """The largest correlations."""
    tied: list[str]
    """Components whose weights cannot be told apart."""


@silent
def signal(samples: Samples, parts: Components) -> Signal:
    """Split the variance of the reward within groups between its components.

    Notes
    -----
    With reward = sum of x_j, Var(reward) = sum of Cov(x_j, reward): each component gets its variance and half
    of its covariances with the others. A share is negative where a component works against the sum.
    """
    added = parts.contributions
    total = deviations(samples, samples.reward)
    rest = samples.reward - added.sum(axis=1)
    # The intercept of the fit is the same for all: it drops out of the deviations.
    x = np.column_stack([deviations(samples, added), deviations(samples, rest)])
    x[:, -1] = np.where(np.abs(x[:, -1]) <= 1e-9 * np.abs(samples.reward).max(initial=0.0), 0.0, x[:, -1])
    columns = np.column_stack([x * total[:, None], total**2, (x**2).sum(axis=1)])
    sums = cluster_sums(columns, samples.cluster[samples.group])

    @np.errstate(invalid="ignore", divide="ignore")
    def statistic(totals: np.ndarray) -> np.ndarray:
        variance, separate = totals[..., -2:-1], totals[..., -1:]
        return np.concatenate([totals[..., :-2] / variance, 1.0 - variance / separate], axis=-1)

    made = bootstrap(sums, statistic)
    n = len(samples.reward)
    estimates = [estimate(made, n, at) for at in range(len(parts.names) + 2)]
    varied = np.zeros(samples.num_groups, dtype=bool)
    for column in added.T:
        low, high = spans(column, samples.group, samples.num_groups)
        varied |= high > low
    weights = [None if np.isnan(weight) else float(weight) for weight in parts.weights]
    return Signal(
        how=parts.how,
        shares=[ComponentShare(*each) for each in zip(parts.names, weights, estimates[:-2], strict=True)],
        rest=estimates[-2],
        cancelled=estimates[-1],
        cancelled_groups=share_of(samples.alike & varied, samples.cluster),
        pairs=_pairs(samples, parts),
        tied=parts.alike,
    )


def _pairs(samples: Samples, parts: Components) -> list[Pair]:
    found = [
        Pair(parts.names[i], parts.names[j], correlation(samples, parts.values[:, i], parts.values[:, j]))
        for i, j in combinations(range(len(parts.names)), 2)
    ]
    known = [pair for pair in found if pair.correlation.value is not None]
    return sorted(known, key=lambda pair: -abs(pair.correlation.value or 0.0))[:MOST_PAIRS]
