"""Groups without signal, beside what the success rates of their prompts predict, and at other group sizes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.samples import Samples
from audit.analyses.visits import blocks, neighbours
from audit.analyses.zero_signal import zero_signal_estimate
from audit.facts.rows import dense
from audit.stats import Estimate, bootstrap, cluster_sums, estimate

SIZES = (2, 4, 8, 16, 32, 64)


class Expected(msgspec.Struct, frozen=True):
    """Zero-signal groups among those whose prompt has other visits; n counts groups."""

    observed: Estimate
    predicted: Estimate
    """Were every reward an independent draw from its prompt's distribution, estimated without the group."""
    difference: Estimate
    """Observed - predicted; above 0: rates move from visit to visit, or a group is more alike than draws."""
    left_out: int
    """Groups whose prompt has fewer than two other visits, or too few samples in them."""


class SizeShare(msgspec.Struct, frozen=True):
    """Share of groups that would carry no signal at another group size."""

    group_size: int
    share: Estimate
    """n counts the groups behind it."""
    groups: int
    """All groups; those beyond ``share.n`` have too few samples of their prompt."""


def predicted_alike(samples: Samples) -> np.ndarray:
    """Probability that the rewards of each group are all equal, float64, shape (N,); NaN where unknown.

    From the nearest other visits to the prompt (:func:`~.visits.neighbours`), pooled, by the unbiased
    estimator of :func:`~.zero_signal.zero_signal_estimate`: for a success rate p it estimates p^G + (1-p)^G
    with G the size of the group. One other visit would not do: whether that was all alike is no prediction.
    """
    near = neighbours(samples)
    near[(near >= 0).sum(axis=1) < 2] = -1
    group, value, count = _cells(samples)
    starts = np.searchsorted(group, np.arange(samples.num_groups + 1))
    owners, values, counts = [], [], []
    for column in near.T:
        to = np.flatnonzero(column >= 0)
        length = np.diff(starts)[column[to]]
        cell = np.repeat(starts[column[to]] - np.cumsum(length) + length, length) + np.arange(length.sum())
        owners.append(np.repeat(to, length))
        values.append(value[cell])
        counts.append(count[cell])
    return _alike(samples, np.concatenate(owners), np.concatenate(values), np.concatenate(counts))


def _alike(samples: Samples, owner: np.ndarray, value: np.ndarray, count: np.ndarray) -> np.ndarray:
    found = np.full(samples.num_groups, np.nan)
    if not len(owner):
        return found
    cell = dense(owner, value)
    _, first = np.unique(cell, return_index=True)
    pools, pool = np.unique(owner[first], return_inverse=True)
    found[pools] = zero_signal_estimate(np.bincount(cell, weights=count), samples.size[pools], pool)
    return found


def expected(samples: Samples, predicted: np.ndarray) -> Expected:
    """Hold the share of zero-signal groups against the prediction, on the same groups.

    Parameters
    ----------
    predicted : ndarray, shape (N,)
        See :func:`predicted_alike`.
    """
    known = np.isfinite(predicted)
    columns = np.column_stack([samples.alike, np.where(known, predicted, 0.0), np.ones(len(known))])
    sums = cluster_sums(columns * known[:, None], samples.cluster)
    made = bootstrap(sums, _shares)
    n = int(known.sum())
    observed, share, difference = (estimate(made, n, at) for at in range(3))
    return Expected(observed, share, difference, left_out=len(known) - n)


def by_size(samples: Samples, sizes: Sequence[int] = ()) -> list[SizeShare]:
    """Share of zero-signal groups at other group sizes, from pooled samples, without bias.

    For G' up to the size of a group, from its own samples; beyond, from consecutive visits to its prompt, as
    few as hold G' samples. Sizes that no prompt has the samples for are left out, unless asked for.
    """
    group, value, count = _cells(samples)
    made = []
    for size in sizes or sorted({*SIZES, samples.typical_size} - {0, 1}):
        block = blocks(samples, size)
        cell = dense(block[group], value)
        _, first = np.unique(cell, return_index=True)
        each = zero_signal_estimate(np.bincount(cell, weights=count), size, block[group][first])
        share = each[block]
        known = np.isfinite(share)
        if known.any() or sizes:
            sums = cluster_sums(np.column_stack([np.where(known, share, 0.0), known]), samples.cluster)
            made.append(SizeShare(size, estimate(bootstrap(sums, _ratio), int(known.sum())), len(known)))
    return made


def _cells(samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group, reward code and number of samples of every (group, reward) that occurs, sorted by group."""
    _, value = np.unique(samples.reward, return_inverse=True)
    _, first, count = np.unique(dense(samples.group, value), return_index=True, return_counts=True)
    return samples.group[first], value[first], count


@np.errstate(invalid="ignore", divide="ignore")
def _ratio(totals: np.ndarray) -> np.ndarray:
    return np.asarray(totals[..., :1] / totals[..., 1:2])


@np.errstate(invalid="ignore", divide="ignore")
def _shares(totals: np.ndarray) -> np.ndarray:
    observed, predicted = totals[..., 0] / totals[..., 2], totals[..., 1] / totals[..., 2]
    return np.stack([observed, predicted, observed - predicted], axis=-1)
