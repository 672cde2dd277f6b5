"""One reward, or one component of it: its values, saturation, and how much of the signal it makes."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.samples import Samples, spans
from audit.analyses.shares import share_of
from audit.analyses.within_group import correlation, spread
from audit.stats import Estimate, ratio_of_sums

_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_VALUES = 8


class ValueShare(msgspec.Struct, frozen=True):
    """How often one value occurs."""

    value: float
    share: float


class RewardPart(msgspec.Struct, frozen=True):
    """The reward, or a component, over the scored samples; n counts samples unless said otherwise."""

    name: str
    missing: int
    """Samples without a finite value."""
    mean: Estimate
    spread: Estimate
    """Standard deviation within groups: the signal that a baseline leaves."""
    quantiles: list[tuple[float, float]]
    """(probability, value)."""
    distinct: int
    """Different values."""
    frequent: list[ValueShare]
    """The most frequent values."""
    at_low: Estimate
    """Share of samples at the smallest value that occurs; None where all are equal."""
    at_high: Estimate
    """Share at the largest."""
    alike: Estimate
    """Share of groups in which it is the same for every sample: it carries no signal there. n: groups."""
    constant_steps: int | None
    """Steps of several groups in which it never varies, between groups either."""
    with_length: Estimate | None
    """Correlation with length within groups."""


def reward_part(samples: Samples, name: str, values: np.ndarray) -> RewardPart:
    """Describe one quantity, shape (S,), NaN where not given."""
    known = np.isfinite(values)
    held = values[known]
    cluster = samples.cluster[samples.group]
    distinct, counts = np.unique(held, return_counts=True)
    top = np.argsort(-counts, kind="stable")[:_VALUES]
    nothing = Estimate(None, None, None, len(held))
    several = len(distinct) > 1
    low, high = spans(held, samples.group[known], samples.num_groups)
    measured = samples.per_group(known.astype(float)) > 0
    quantiles = np.quantile(held, _QUANTILES).tolist() if len(held) else []
    return RewardPart(
        name=name,
        missing=int((~known).sum()),
        mean=ratio_of_sums(np.where(known, values, 0.0), known.astype(float), cluster, len(held)),
        spread=spread(samples, values),
        quantiles=list(zip(_QUANTILES, quantiles, strict=False)),
        distinct=len(distinct),
        frequent=[ValueShare(float(distinct[at]), float(counts[at] / len(held))) for at in top],
        at_low=share_of(values == distinct[0], cluster, known) if several else nothing,
        at_high=share_of(values == distinct[-1], cluster, known) if several else nothing,
        alike=share_of(high <= low, samples.cluster, measured),
        constant_steps=_constant_steps(samples, values, known),
        with_length=correlation(samples, values, samples.tokens)
        if np.isfinite(samples.tokens).any()
        else None,
    )


def _constant_steps(samples: Samples, values: np.ndarray, known: np.ndarray) -> int | None:
    if not np.isfinite(samples.step).any():
        return None
    steps, of_group = np.unique(samples.step, return_inverse=True)
    low, high = spans(values[known], of_group[samples.group[known]], len(steps))
    several = np.bincount(of_group, minlength=len(steps)) > 1
    return int((several & np.isfinite(steps) & (low == high)).sum())
