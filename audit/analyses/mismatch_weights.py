"""The importance weights pi_old / pi_sampler: effective sample size per token, response and update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from audit.analyses.bucket_shares import prompt_sums
from audit.analyses.pareto import effective_share, pareto_k, reliable_k
from audit.facts.rows import RunRows
from audit.stats import Estimate, bootstrap, estimate


class Weights(msgspec.Struct, frozen=True):
    """Weights exp(Σ g) of whole responses, and exp(g) of tokens, g = log pi_old - log pi_sampler."""

    responses: int
    mean: Estimate
    """Mean weight of a response; 1 in expectation where sampler log-probs are those of what was sampled."""
    ess: Estimate
    """(Σ W)² / (n Σ W²): the share of the responses that the weights leave."""
    token_ess: Estimate
    """The same over tokens."""
    update_ess_median: float | None
    """The same over the responses of one update: median over updates with two or more."""
    update_ess_least: float | None
    updates: int
    pareto_k: float | None
    """Tail shape of the response weights; None where the tail is too short or does not vary."""
    tail: int
    """Responses that it was fitted to."""
    reliable_k: float
    """Below this an average under the weights is reliable (Vehtari et al. 2024)."""
    state: Literal["reliable", "unreliable", "no mean", "unknown"]
    with_length: Estimate
    """Correlation of log W with the loss tokens of the response: a product shrinks or grows with length."""


def weights(rows: RunRows, use: np.ndarray) -> Weights:
    """Measure the weights of the responses ``use``, bool, shape (R,), whose gaps are finite."""
    assert rows.facts is not None
    log = rows.facts["sampler_gap"][use]
    tokens = rows.facts["loss_tokens"][use].astype(np.float64)
    prompt, n = rows.prompt[use], len(log)
    ratio, square = (rows.facts[name][use] for name in ("sampler_ratio", "sampler_ratio_square"))
    # Any common factor cancels in an effective sample size.
    scaled = np.exp(log - log.max())
    one = np.ones(n)
    k, tail = pareto_k(log)
    bound = reliable_k(n)
    per_update = _per_update(rows.update[use], scaled) if n else np.zeros(0)
    with np.errstate(over="ignore"):
        plain = np.exp(log)
    return Weights(
        responses=n,
        mean=_of_sums([plain, one], prompt, _mean, n),
        ess=_of_sums([scaled, np.square(scaled), one], prompt, effective_share, n),
        token_ess=_of_sums([ratio, square, tokens], prompt, effective_share, n),
        update_ess_median=float(np.median(per_update)) if len(per_update) else None,
        update_ess_least=float(per_update.min()) if len(per_update) else None,
        updates=len(per_update),
        pareto_k=k,
        tail=tail,
        reliable_k=bound,
        state="unknown" if k is None else "no mean" if k >= 1 else "reliable" if k < bound else "unreliable",
        with_length=_of_sums(
            [one, tokens, log, tokens * tokens, log * log, tokens * log], prompt, correlation, n
        ),
    )


def _of_sums(
    columns: Sequence[np.ndarray], prompt: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], n: int
) -> Estimate:
    sums = np.column_stack([prompt_sums(column, prompt) for column in columns])
    return estimate(bootstrap(sums, statistic), n)


def _per_update(update: np.ndarray, weight: np.ndarray) -> np.ndarray:
    _, code, count = np.unique(update, return_inverse=True, return_counts=True)
    # Rescaled by the update's own largest weight: another update's must not drown it.
    largest = np.zeros(len(count))
    np.maximum.at(largest, code, weight)
    own = weight / np.where(largest[code] > 0, largest[code], 1.0)
    first, second = np.bincount(code, weights=own), np.bincount(code, weights=own * own)
    held = (count > 1) & (second > 0)
    return np.asarray(first[held] ** 2 / (count[held] * second[held]))


def _mean(totals: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., :1] / totals[..., 1:2])


def correlation(totals: np.ndarray) -> np.ndarray:
    """Pearson's r from sums (n, x, y, x², y², xy), shape (..., 6): shape (..., 1)."""
    n, x, y, xx, yy, xy = (totals[..., at : at + 1] for at in range(6))
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (n * xx - x * x) * (n * yy - y * y)
        # Rounding of a constant must not pass for variation.
        still = spread <= 1e-24 * n * n * xx * yy
        return np.asarray(np.where(still, np.nan, (n * xy - x * y) / np.sqrt(np.maximum(spread, 0.0))))
