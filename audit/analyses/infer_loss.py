"""Which surrogate, clip, aggregation and KL made the logged loss?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from audit.analyses.infer_clip import ClipFit
from audit.analyses.logged_scalars import Series
from audit.analyses.loss_fit import LossFit
from audit.analyses.loss_sample import LossSample
from audit.analyses.loss_surrogates import Surrogate, kl_sums, surrogates, value
from audit.analyses.loss_windows import Fit, Windows
from audit.facts.rows import RunRows
from audit.objectives.aggregation import aggregation_coefficients
from audit.objectives.objective import Aggregation, Objective

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
            if free and scope.aggregation.constant == "longest":
                continue
            chosen = [at for at, one in enumerate(candidates) if _go_together(one, scope)]
            policy = np.stack([windows.mean(scope.nu * values[at]) for at in chosen])
            means = {name: windows.mean(scope.nu * sums) for name, sums in kls.items()}
            for fit, at in windows.fits(policy, means, free=free):
                made = _named(candidates[chosen[at]], scope, fit)
                if fit.exact:
                    found.append(made)
                if closest is None or made.residual < closest.residual:
                    closest = made
        if found:
            break
    sees_kl = any(windows.sharp(windows.mean(scoped[0].nu * sums)) for sums in kls.values())
    return LossFits(_ranked(found), closest, len(windows.logged), sees_kl)


def _go_together(surrogate: Surrogate, scoped: Scoped) -> bool:
    """A response that is one action has no tokens to average over."""
    return surrogate.level != "product" or scoped.aggregation.kind == "seq-mean-token-sum"


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
        dual_shows=surrogate.dual_shows,
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
