"""Does the push that the weights predict explain how lengths moved?

A step of gradient ascent moves the mean length by the learning rate times the pressure, on a table and with
the natural gradient; how large that rate is for a network and its optimiser is unknown. So only the sign and
the shape are compared: the cumulative push of the steps so far against the length then, prompts held fixed.
Two curves that both rise or fall correlate whatever made them, so the correlation of increments (the push of
one stretch of steps with the change of length to the next) is given beside it.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from audit.analyses.length_bins import clusters, step_bins, sums_by_bin
from audit.analyses.length_drift import Drift
from audit.analyses.length_path import path_of, path_sums
from audit.analyses.length_pressure import Pressure, moments
from audit.analyses.length_rows import NOTHING, LengthRows
from audit.stats import Estimate, bootstrap, estimate

Agreement = Literal["same direction", "opposite", "drift without push", "push without drift", "unclear"]


class PushAndDrift(msgspec.Struct, frozen=True):
    """Push and observed length of one side over T bins of steps."""

    agreement: Agreement
    """By the intervals of the whole run's pressure and drift."""
    step: list[float]
    """Mean step of each bin."""
    push: list[float | None]
    """Pressure of each bin; None where no group has two responses of this side."""
    cumulative: list[float | None]
    """Sum of the push over the steps before the middle of each bin, less that of the first; unknown scale."""
    observed: list[float | None]
    """Length less that of the first bin, prompts held fixed."""
    scale: Estimate
    """Tokens of drift per unit of cumulative push: positive where the push explains the direction."""
    correlation: Estimate
    """Of the cumulative push with the observed length, over bins."""
    increments: Estimate
    """Of the push of a bin with the change of length to the next."""


class PushesAndDrifts(msgspec.Struct, frozen=True):
    """By correctness."""

    correct: PushAndDrift
    wrong: PushAndDrift
    all: PushAndDrift


def push_and_drift(
    data: LengthRows, per_token: np.ndarray, pressure: Pressure, drift: Drift
) -> PushesAndDrifts:
    """Compare them; ``per_token`` as in :func:`~.length_pressure.length_pressure`."""
    made = [
        compare(data, per_token, data.side(name), agreement(getattr(pressure, name), getattr(drift, name)))
        for name in ("correct", "wrong", "all")
    ]
    return PushesAndDrifts(*made)


def agreement(push: Estimate, drift: Estimate) -> Agreement:
    """Say how two intervals lie to each other and to 0."""
    if push.low is None or drift.low is None or push.value is None or drift.value is None:
        return "unclear"
    pushed, moved = push.excludes(0.0), drift.excludes(0.0)
    if pushed and moved:
        return "same direction" if push.value * drift.value > 0 else "opposite"
    if moved:
        # A push that may be of either sign says nothing; one that is 0 exactly says that there is none.
        return "drift without push" if push.low == push.high == 0.0 else "unclear"
    return "push without drift" if pushed else "unclear"


def compare(data: LengthRows, per_token: np.ndarray, chosen: np.ndarray, how: Agreement) -> PushAndDrift:
    """Curves of the rows chosen, bool of shape (R,), and how they go together."""
    use = chosen & np.isfinite(data.step)
    bins = step_bins(data.step, use)
    times, n = len(bins.step), int(use.sum())
    if times == 0:
        return PushAndDrift(how, [], [], [], [], NOTHING, NOTHING, NOTHING)
    m = moments(data, per_token, use)
    cluster, count = clusters(data.cluster[use])
    product, freedom = (
        sums_by_bin(v[use], cluster, bins.of_row[use], count, times) for v in (m.product, m.freedom)
    )
    sums = np.hstack([product, freedom, path_sums(data, use, bins)])

    def curves(totals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore", invalid="ignore"):
            push = totals[..., :times] / totals[..., times : 2 * times]
        return push, _cumulative(push, bins.steps), path_of(totals[..., 2 * times :], times)

    def together(totals: np.ndarray) -> np.ndarray:
        push, predicted, observed = curves(totals)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = (predicted * observed).sum(axis=-1) / (predicted * predicted).sum(axis=-1)
        cumulative = _correlation(predicted, observed)
        return np.stack([scale, cumulative, _correlation(push[..., :-1], np.diff(observed))], axis=-1)

    push, predicted, observed = curves(sums.sum(axis=0))
    nothing = Estimate(None, None, None, n)
    scale, correlation, increments = nothing, nothing, nothing
    if times >= 3:
        interval = bootstrap(sums, together)
        scale, correlation, increments = (estimate(interval, n, at) for at in range(3))
    return PushAndDrift(
        agreement=how,
        step=bins.step.tolist(),
        push=_listed(push),
        cumulative=_listed(predicted),
        observed=_listed(observed),
        scale=scale,
        correlation=correlation,
        increments=increments,
    )


def _cumulative(push: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Push summed up to the middle of each bin, less that of the first, (..., T); 0 where it is unknown."""
    total = np.nan_to_num(push) * steps
    reached = np.cumsum(total, axis=-1) - 0.5 * total
    return np.asarray(reached - reached[..., :1])


def _correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pearson's over the last axis, of the places where both are known; NaN where one does not vary."""
    known = np.isfinite(a) & np.isfinite(b)
    count = np.maximum(known.sum(axis=-1, keepdims=True), 1)
    a, b = (np.where(known, v, 0.0) for v in (a, b))
    a, b = (np.where(known, v - v.sum(axis=-1, keepdims=True) / count, 0.0) for v in (a, b))
    spread = np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        made = (a * b).sum(axis=-1) / spread
    return np.asarray(np.where((spread > 1e-12) & (known.sum(axis=-1) >= 3), made, np.nan))


def _listed(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
