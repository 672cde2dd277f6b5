"""Regressions of a logged loss on recomputed ones, over the windows in which it was logged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from audit.analyses.infer_clip import Bound, roundest
from audit.analyses.logged_scalars import Series
from audit.analyses.loss_sample import LossSample
from audit.facts.rows import RunRows

EXACT = 1e-4
"""Relative misfit below which a recomputed loss is the logged one, up to float32 rounding; heuristic."""
NOISE = 3e-7
"""Rounding of a sum of float32 advantages, relative to their size; heuristic."""
LEAST = 4
"""Logged values that a claim needs, beyond one for each coefficient; heuristic."""
SHARP = 0.005
"""A coefficient of the KL that is not known this well is not known; heuristic."""
_TINY = 1e-300


class Fit(NamedTuple):
    """Coefficients of one regression."""

    factor: float
    kl: str
    beta: float
    beta_range: Bound | None
    residual: float
    """RMS(logged - recomputed) / RMS(logged)."""
    exact: bool
    """Whether rounding explains the residual."""


class Windows:
    """The logged values that can be recomputed, W of them."""

    def __init__(self, sample: LossSample, loss: Series, rows: RunRows) -> None:
        # Of a window with a token that is not finite nothing can be recomputed.
        broken = np.unique(loss.window[sample.row[~sample.finite]])
        window = np.where(sample.rows & ~np.isin(loss.window, broken), loss.window, -1)
        self._used = window >= 0
        self._window = window[self._used]
        pairs = np.unique(np.stack([self._window, rows.update[self._used]]), axis=1)
        self._updates = np.bincount(pairs[0], minlength=len(loss.value))
        self._seen = np.flatnonzero(self._updates)
        self.logged = loss.value[self._seen]
        self.size = rms(self.logged)
        self.tolerance = EXACT * self.size + NOISE * rms(sample.advantage[sample.finite]) + loss.rounding
        """RMS misfit that rounding explains."""

    def mean(self, per_row: np.ndarray) -> np.ndarray:
        """Mean over updates of the sum over responses, shape (W,), from values of shape (R,)."""
        total = np.bincount(self._window, weights=per_row[self._used], minlength=len(self._updates))
        return np.asarray(total[self._seen] / self._updates[self._seen])

    def sharp(self, kl: np.ndarray) -> bool:
        """Whether a coefficient on ``kl`` would be known to better than :data:`SHARP`."""
        return SHARP * rms(kl) > self.tolerance

    def fits(
        self, policy: np.ndarray, kls: dict[str, np.ndarray], *, free: bool
    ) -> Iterator[tuple[Fit, int]]:
        """Best fits and every exact one, with the index of the policy loss.

        Parameters
        ----------
        policy : shape (S, W)
            Policy losses of S candidates.
        kls : dict of arrays, shape (W,)
            KL terms by name; one is tried where a policy loss alone does not fit.
        free : bool
            A common factor on the loss is fitted too.
        """
        if len(self.logged) < LEAST + 1 + free:
            return
        plain = self._solve(policy, None, free=free)
        yield from self._told(plain, "none", free=free)
        rest = np.flatnonzero(~(plain.misfit <= self.tolerance))
        for name, kl in kls.items():
            if len(rest) and rms(kl) > 0:
                solved = self._solve(policy[rest], kl, free=free)
                for fit, at in self._told(solved, name, free=free, kl=kl):
                    yield fit, int(rest[at])

    def _solve(self, policy: np.ndarray, kl: np.ndarray | None, *, free: bool) -> _Solved:
        """Least squares of the logged loss on f · policy + g · kl, by its normal equations; g = f · beta."""
        y, count = self.logged, len(policy)
        one = np.ones(count)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if kl is None:
                factor = policy @ y / (policy**2).sum(axis=1) if free else one
                slope = 0.0 * one
            elif free:
                pp, pk, kk = (policy**2).sum(axis=1), policy @ kl, kl @ kl
                determinant = pp * kk - pk**2
                factor = (kk * (policy @ y) - pk * (kl @ y)) / determinant
                slope = (pp * (kl @ y) - pk * (policy @ y)) / determinant
            else:
                factor, slope = one, (y - policy) @ kl / (kl @ kl)
            made = factor[:, None] * policy + (0.0 if kl is None else slope[:, None] * kl)
            misfit = np.sqrt(np.mean((y - made) ** 2, axis=1))
        usable = np.isfinite(misfit) & (factor > 0) & ((slope > 0) | (kl is None))
        return _Solved(factor, slope, np.where(usable, misfit, np.inf))

    def _told(
        self, solved: _Solved, name: str, *, free: bool, kl: np.ndarray | None = None
    ) -> Iterator[tuple[Fit, int]]:
        if not len(solved.misfit):
            return
        best = int(np.argmin(solved.misfit))
        for at in sorted({best, *np.flatnonzero(solved.misfit <= self.tolerance).tolist()}):
            misfit = float(solved.misfit[at])
            if not np.isfinite(misfit):
                continue
            factor = float(solved.factor[at]) if free else 1.0
            beta, known = 0.0, None
            if kl is not None:
                width, slope = 3.0 * self.tolerance / max(rms(kl), _TINY), float(solved.slope[at])
                low, high = (slope - width) / factor, (slope + width) / factor
                known, beta = Bound(low, high), roundest(low, high)
            yield Fit(factor, name, beta, known, misfit / max(self.size, _TINY), misfit <= self.tolerance), at


class _Solved(NamedTuple):
    """Coefficients and RMS misfit of S regressions, shapes (S,)."""

    factor: np.ndarray
    slope: np.ndarray
    misfit: np.ndarray


def rms(values: np.ndarray) -> float:
    """Root mean square; 0 of nothing."""
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0
