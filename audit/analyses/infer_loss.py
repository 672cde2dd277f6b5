"""Which surrogate, clip, aggregation and KL made the logged loss?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from audit.analyses.infer_clip import Bound, ClipFit, roundest
from audit.analyses.logged_scalars import Series
from audit.analyses.loss_fit import LossFit
from audit.analyses.loss_sample import LossSample
from audit.analyses.loss_surrogates import Surrogate, kl_sums, surrogates, value
from audit.facts.rows import RunRows
from audit.objectives.aggregation import aggregation_coefficients
from audit.objectives.objective import Aggregation, Objective

EXACT = 1e-4
"""Relative misfit below which a recomputed loss is the logged one, up to float32 rounding; heuristic."""
NOISE = 3e-7
"""Rounding of a sum of float32 advantages, relative to their size; heuristic."""
LEAST = 4
"""Logged values that a claim needs; heuristic."""
SHARP = 0.005
"""A coefficient of the KL that is not known this well is not known; heuristic."""

_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("seq-mean-token-mean", ("update", "micro_batch")),
    ("token-mean", ("update", "micro_batch", "generation_batch")),
    ("seq-mean-token-sum", ("update", "micro_batch")),
    ("seq-mean-token-sum-norm", ("update", "micro_batch")),
    ("prompt-mean-token-mean", ("update",)),
    ("token-sum", ("update",)),
)
"""Aggregations and their scopes. A ``-norm`` with a constant is the sum with another factor."""


class LossFits(NamedTuple):
    """Candidates that reproduce the loss, and the closest of all."""

    fitting: list[LossFit]
    closest: LossFit | None
    windows: int
    sees_kl: bool
    """Whether a KL in the loss would show."""


class Scoped(NamedTuple):
    """An aggregation, and its coefficient on each response, shape (R,)."""

    aggregation: Aggregation
    nu: np.ndarray
    mask_truncated: bool


def fit_loss(
    rows: RunRows,
    sample: LossSample,
    loss: Series,
    clip: list[ClipFit],
    declared: Surrogate | None = None,
    *,
    clip_logged: bool,
) -> LossFits:
    """Recompute the loss of every window under every candidate.

    A window's loss is the mean over its updates of sum_i nu_i (S_i + beta K_i): nu the coefficients of
    :func:`audit.objectives.aggregation.aggregation_coefficients`, S the surrogate and K the KL, summed over
    tokens. beta is found by least squares; a common factor on the loss only where none fits with 1.
    """
    scoped = list(_scoped(rows))
    candidates = list(surrogates(sample, clip, declared, clip_logged=clip_logged))
    values = [value(sample, candidate) for candidate in candidates]
    windows = Windows(sample, loss, rows)
    kls = kl_sums(sample)
    found: list[LossFit] = []
    closest: LossFit | None = None
    for free in (False, True):
        for scope in scoped:
            regressors = {name: windows.mean(scope.nu * sums) for name, sums in kls.items()}
            for candidate, sums in zip(candidates, values, strict=True):
                fits = windows.fits(windows.mean(scope.nu * sums), regressors, free=free)
                for made in fits:
                    fit = _named(candidate, scope, made)
                    if made.exact:
                        found.append(fit)
                    if closest is None or fit.residual < closest.residual:
                        closest = fit
        if found:
            break
    sees_kl = any(windows.sharp(windows.mean(scoped[0].nu * sums)) for sums in kls.values())
    return LossFits(_ranked(found), closest, len(windows.logged), sees_kl)


class Fit(NamedTuple):
    """Coefficients of one regression."""

    factor: float
    kl: str
    beta: float
    beta_range: Bound | None
    residual: float
    exact: bool


class Windows:
    """The logged values that can be recomputed, and regressions on them."""

    def __init__(self, sample: LossSample, loss: Series, rows: RunRows) -> None:
        self.window = np.where(sample.rows, loss.window, -1)
        used = self.window >= 0
        pairs = np.unique(np.stack([self.window[used], rows.update[used]]), axis=1)
        self.updates = np.bincount(pairs[0], minlength=len(loss.value))
        self.seen = np.flatnonzero(self.updates)
        self.logged = loss.value[self.seen]
        self.size = float(np.sqrt(np.mean(self.logged**2))) if len(self.logged) else 0.0
        self.slack = NOISE * _rms(sample.advantage) + loss.rounding

    def mean(self, per_row: np.ndarray) -> np.ndarray:
        """Mean over updates of the sum over responses, shape (W,)."""
        used = self.window >= 0
        total = np.bincount(self.window[used], weights=per_row[used], minlength=len(self.updates))
        return np.asarray(total[self.seen] / self.updates[self.seen])

    @property
    def tolerance(self) -> float:
        """RMS misfit that rounding explains."""
        return EXACT * self.size + self.slack

    def sharp(self, kl: np.ndarray) -> bool:
        """Whether a coefficient on ``kl`` is known to better than :data:`SHARP`."""
        return SHARP * _rms(kl) > self.tolerance

    def fits(self, policy: np.ndarray, kls: dict[str, np.ndarray], *, free: bool) -> Iterator[Fit]:
        """Without a KL; if that does not fit, with each."""
        none = self._solve(policy, None, "none", free=free)
        if none is not None:
            yield none
            if none.exact:
                return
        for name, kl in kls.items():
            made = self._solve(policy, kl, name, free=free)
            if made is not None and made.beta > 0:
                yield made

    def _solve(self, policy: np.ndarray, kl: np.ndarray | None, name: str, *, free: bool) -> Fit | None:
        use = np.isfinite(policy) & (True if kl is None else np.isfinite(kl))
        columns = [policy[use]] if free else []
        if kl is not None:
            columns.append(kl[use])
        target = self.logged[use] - (0.0 if free else policy[use])
        if int(use.sum()) < LEAST + len(columns):
            return None
        made = np.zeros(0)
        if columns:
            made = np.linalg.lstsq(np.stack(columns, axis=1), target, rcond=None)[0]
            target = target - np.stack(columns, axis=1) @ made
        factor = float(made[0]) if free else 1.0
        if factor <= 0:
            return None
        beta, known = 0.0, None
        if kl is not None:
            width = 3.0 * self.tolerance / max(_rms(kl[use]), 1e-300)
            raw = float(made[-1])
            known = Bound((raw - width) / factor, (raw + width) / factor)
            beta = roundest(known.low, known.high or known.low)
        residual = _rms(target)
        return Fit(factor, name, beta, known, residual / max(self.size, 1e-300), residual <= self.tolerance)


def _scoped(rows: RunRows) -> Iterator[Scoped]:
    responses = rows.responses(Objective())
    truncated = responses.truncated
    masks = [False]
    if truncated is not None and not rows.has("loss_mask") and bool(truncated.any()):
        masks.append(True)
    for masked in masks:
        tokens = responses.loss_tokens
        if masked and truncated is not None:
            tokens = tokens * ~truncated
        for kind, scopes in _KINDS:
            for scope in scopes:
                if scope == "micro_batch" and responses.micro_batch is None:
                    continue
                if scope == "generation_batch" and not rows.has("generation_batch"):
                    continue
                constant = "longest" if kind.endswith("-norm") else None
                aggregation = Aggregation(kind=kind, scope=scope, constant=constant)  # type: ignore[arg-type]
                nu = np.asarray(aggregation_coefficients(responses, aggregation, tokens, responses.trained))
                if masked:
                    nu = np.where(np.asarray(truncated), 0.0, nu)
                yield Scoped(aggregation, nu, masked)


def _named(surrogate: Surrogate, scoped: Scoped, fit: Fit) -> LossFit:
    kind, longest = scoped.aggregation.kind, scoped.aggregation.constant == "longest"
    if not longest and fit.factor != 1.0 and kind in ("seq-mean-token-sum", "token-sum"):
        # A sum with another factor is a sum over a constant.
        kind = f"{kind}-norm"  # type: ignore[assignment]
    return LossFit(
        surrogate=surrogate.kind,
        level=surrogate.level,
        epsilon_low=surrogate.low,
        epsilon_high=surrogate.high,
        dual=surrogate.dual,
        low_bound=surrogate.low_bound,
        high_bound=surrogate.high_bound,
        aggregation=kind,
        scope=scoped.aggregation.scope,
        longest=longest,
        factor=fit.factor,
        kl=fit.kl,
        beta=fit.beta,
        beta_range=fit.beta_range,
        mask_truncated=scoped.mask_truncated,
        residual=fit.residual,
    )


def _ranked(fits: Iterable[LossFit]) -> list[LossFit]:
    """The plainest first: all of them fit."""
    return sorted(
        fits, key=lambda f: (f.mask_truncated, f.kl != "none", f.level == "none", f.longest, f.dual or 0)
    )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0
