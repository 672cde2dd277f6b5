"""Which clip made the logged clip fractions? The interval of epsilon that reproduces every one of them."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import msgspec
import numpy as np

from audit.analyses.logged_scalars import Series
from audit.analyses.loss_sample import LossSample

SLACK = 2e-5
"""Ratios of float32 log-probs are uncertain by this much; heuristic."""
LEVELS = ("token", "sequence", "product")
USUAL = (0.2, 0.28, 0.1, 0.3, 0.02, 0.05, 0.15, 0.25, 0.22, 0.24, 0.27, 0.4, 0.5, 3e-4, 4e-4)
"""Epsilons in use; where several fit, the first one stands for them."""


class Bound(msgspec.Struct, frozen=True):
    """Every epsilon of one side that reproduces the clip fractions."""

    low: float
    high: float | None
    """None: no upper end, for nothing was clipped at all."""

    @classmethod
    def at(cls, epsilon: float | None) -> Bound:
        """One epsilon alone; of no clip, none."""
        return cls(np.inf, None) if epsilon is None else cls(epsilon, epsilon)

    def holds(self, epsilon: float | None) -> bool:
        """Whether ``epsilon`` (None: no clip) lies inside."""
        if epsilon is None:
            return self.high is None
        return self.low <= epsilon and (self.high is None or epsilon <= self.high)

    def meets(self, other: Bound) -> bool:
        """Whether the two intervals have an epsilon in common."""
        ends = [bound.high for bound in (self, other) if bound.high is not None]
        return max(self.low, other.low) <= min(ends, default=np.inf)

    @property
    def nominal(self) -> float | None:
        """The epsilon in use, or else the roundest number, inside; None where nothing was clipped."""
        for epsilon in USUAL:
            if self.holds(epsilon):
                return epsilon
        return None if self.high is None else roundest(self.low, self.high)

    def describe(self) -> str:
        """As '0.199 to 0.203'."""
        return f"at least {self.low:.3g}" if self.high is None else f"{self.low:.5g} to {self.high:.5g}"


class ClipFit(msgspec.Struct, frozen=True):
    """One reading of the clip fractions that reproduces them."""

    level: str
    """Of the ratio: ``token``, ``sequence`` or ``product``."""
    counted: str
    """What the fraction is of: ``tokens`` or ``responses``, of a ``micro_batch`` or an ``update``."""
    low: Bound
    high: Bound


class _Side(NamedTuple):
    beyond: np.ndarray
    """How far each token's ratio is beyond 1 on its side, shape (N,); -1 where it cannot be clipped."""
    series: Series


def clip_fits(
    sample: LossSample,
    low: Series | None,
    high: Series | None,
    both: Series | None,
    slices: dict[str, np.ndarray],
) -> list[ClipFit]:
    """Every reading of the logged clip fractions that some epsilon reproduces in every window.

    A token is clipped where its advantage is negative and its ratio below 1 - epsilon_low, or where it is
    positive and the ratio above 1 + epsilon_high (PPO, arXiv:1707.06347 eq. 7). ``both``, the fraction of the
    two together, is read where the sides were not logged, with one epsilon for both.

    Parameters
    ----------
    slices : dict of int64 arrays, shape (R,)
        Code of what one fraction is formed over, by name; the logged one is their mean over its window.
    """
    found = []
    for level, of, scope in itertools.product(LEVELS, ("tokens", "responses"), slices):
        if level == "token" and of == "responses":
            continue
        ratio = sample.ratio(level)
        down = np.where(sample.advantage < 0, 1.0 - ratio, -1.0)
        up = np.where(sample.advantage > 0, ratio - 1.0, -1.0)
        weigh = _Weights(sample, slices[scope], of)
        if low is not None and high is not None:
            bounds = [weigh.bound(_Side(*side)) for side in ((down, low), (up, high))]
        elif both is not None:
            bounds = [weigh.bound(_Side(np.maximum(down, up), both))] * 2
        else:
            return []
        if bounds[0] is not None and bounds[1] is not None:
            found.append(ClipFit(level, f"{of} of a {scope}", bounds[0], bounds[1]))
    return found


class _Weights:
    """What one token adds to the fraction of its window."""

    def __init__(self, sample: LossSample, part: np.ndarray, of: str) -> None:
        self.sample, self.part = sample, part
        rows = sample.rows & (sample.count > 0)
        per_row = np.where(rows, sample.count if of == "tokens" else 1.0, 0.0)
        size = np.bincount(part, weights=per_row)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(rows, per_row / size[part], 0.0)
        # Of a response each token carries its part.
        self.per_token = (share / np.maximum(sample.count, 1.0))[sample.row]

    def bound(self, side: _Side) -> Bound | None:
        """Epsilons under which every window has its logged fraction; None where there are none."""
        sample, logged = self.sample, side.series
        window = np.where(sample.rows, logged.window, -1)
        used = window >= 0
        width = int(self.part.max(initial=0)) + 1
        pairs = np.unique(window[used] * width + self.part[used])
        parts = np.bincount(pairs // width, minlength=len(logged.value))
        seen = np.unique(pairs // width)
        at = window[sample.row]
        least, most = 0.0, np.inf
        some = np.flatnonzero((side.beyond > 0) & (at >= 0))
        some = some[np.argsort(at[some], kind="stable")]
        starts = np.searchsorted(at[some], seen, side="left")
        stops = np.searchsorted(at[some], seen, side="right")
        for which, start, stop in zip(seen.tolist(), starts.tolist(), stops.tolist(), strict=True):
            # Sorted window by window: most readings fail in the first.
            tokens = some[start:stop]
            tokens = tokens[np.argsort(-side.beyond[tokens], kind="stable")]
            total = np.concatenate([[0.0], np.cumsum(self.per_token[tokens])]) / parts[which]
            near = 1e-5 * max(logged.value[which], 1e-3) + logged.rounding
            # With the k farthest tokens clipped, epsilon lies between the distances of token k + 1 and of
            # token k; tokens at one distance are clipped together.
            edges = np.concatenate([[np.inf], side.beyond[tokens], [0.0]])
            fits = np.flatnonzero((np.abs(total - logged.value[which]) <= near) & (edges[:-1] > edges[1:]))
            if not len(fits):
                return None
            least, most = max(least, edges[fits[-1] + 1]), min(most, edges[fits[0]])
            if least > most + 2 * SLACK:
                return None
        low, high = max(least - SLACK, 0.0), most + SLACK
        return Bound(float(low), None if np.isinf(high) else float(high))


def roundest(low: float, high: float) -> float:
    """The number of fewest decimals in an interval, nearest to its middle."""
    middle = 0.5 * (low + high)
    for digits in range(1, 12):
        made = float(f"{middle:.{digits}g}")
        if low <= made <= high:
            return made
    return middle
