"""How many versions behind the policy the responses were sampled, and what goes with it."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.analyses.shares import share_of
from audit.analyses.step_bins import step_bins
from audit.analyses.token_means import TokenMeans
from audit.facts.rows import RunRows
from audit.logs.arrays import to_numpy
from audit.stats import Estimate, mean

_SINGLE = 4
"""Lags up to this stand alone; beyond, ranges double: 5 to 8, 9 to 16."""


class LagShare(msgspec.Struct, frozen=True):
    """Responses of one lag, or of a range; n counts responses."""

    low: int
    high: int
    responses: Estimate
    """Share of the responses whose lag is known."""
    tokens: Estimate | None
    """Share of their loss tokens."""
    length: Estimate | None
    """Mean tokens."""
    log_ratio: Estimate | None
    """Root mean square of log pi_theta - log pi_old, per loss token, nats."""
    mismatch: Estimate | None
    """Mean of |log pi_old - log pi_sampler| per loss token, nats."""
    zeroed: Estimate | None
    """Share of loss tokens that the trust region of the objective removed."""


class LagSteps(msgspec.Struct, frozen=True):
    """Lag over a few consecutive steps; n counts responses."""

    first_step: int
    last_step: int
    mean: Estimate
    most: int
    stale: Estimate
    """Share of responses with a lag above 0."""


class Lag(msgspec.Struct, frozen=True):
    """Lag = policy_version - sampler_version, over every update; greedy rows left out."""

    mean: Estimate
    stale: Estimate
    """Share of responses with a lag above 0."""
    most: int
    negative: int
    """Responses from a version that was not there yet: the columns do not count the same thing."""
    unknown: int
    """Responses without one of the two versions."""
    shares: list[LagShare]
    by_step: list[LagSteps]
    fresh_but_moved: Estimate | None
    """Share of the responses with lag 0 whose policy ratio is not 1 all the same: |log ratio| above 1e-4."""


def lags_of(rows: RunRows) -> np.ndarray:
    """Versions between sampling and update, float64, shape (R,); NaN where one was not logged."""
    table = rows.run.responses(["policy_version", "sampler_version"])
    # Subtracted as integers: versions may be time stamps, which float64 rounds.
    gap = pc.subtract(table["policy_version"], table["sampler_version"]).cast(pa.float64())
    return np.array(to_numpy(gap), dtype=np.float64)


def version_lag(rows: RunRows, lag: np.ndarray, means: TokenMeans) -> Lag:
    """Describe the lags of a run, of which one at least must be known."""
    used = ~rows.greedy
    known = used & np.isfinite(lag)
    bins = step_bins(np.where(known, rows.numpy("step"), np.nan))
    held = lag[known]
    return Lag(
        mean=_mean(rows, lag, known),
        stale=share_of(lag > 0, rows.prompt, known),
        most=int(held.max()),
        negative=int((held < 0).sum()),
        unknown=int((used & ~known).sum()),
        shares=[_share(rows, lag, known, span, means) for span in _spans(held)],
        by_step=[
            LagSteps(
                *span,
                _mean(rows, lag, bins.code == at),
                int(lag[bins.code == at].max()),
                share_of(lag > 0, rows.prompt, bins.code == at),
            )
            for at, span in enumerate(bins.spans)
        ],
        fresh_but_moved=means.moved(known & (lag == 0)),
    )


def _spans(lag: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of lags that occur."""
    top = int(lag.max())
    spans = [(int(lag.min()), -1)] if lag.min() < 0 else []
    spans += [(at, at) for at in range(_SINGLE + 1)]
    edge = _SINGLE
    while edge < top:
        spans.append((edge + 1, 2 * edge))
        edge *= 2
    return [(low, high) for low, high in spans if ((lag >= low) & (lag <= high)).any()]


def _share(
    rows: RunRows, lag: np.ndarray, known: np.ndarray, span: tuple[int, int], means: TokenMeans
) -> LagShare:
    here = known & (lag >= span[0]) & (lag <= span[1])
    length = _mean(rows, rows.length, here)
    return LagShare(
        *span,
        responses=share_of(here, rows.prompt, known),
        tokens=means.share(here, known),
        length=length if length.n else None,
        log_ratio=means.log_ratio(here),
        mismatch=means.mismatch(here),
        zeroed=means.zeroed(here),
    )


def _mean(rows: RunRows, values: np.ndarray, among: np.ndarray) -> Estimate:
    return mean(values[among], rows.prompt[among])
