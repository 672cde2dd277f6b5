"""Which responses hold the mismatch, and at which steps it falls back."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.facts.rows import RunRows

LEVELS = (0.5, 0.9, 0.99, 1.0)
HEAD = 0.1
"""Share of the responses, those with the largest mismatch, of which is told how much they hold."""
FALL = 0.5
"""A step below this fraction of the step before it, and beyond noise, is a reset; heuristic."""
SIGNIFICANT = 3.0
"""Standard errors that a fall must exceed; heuristic."""


class Tail(msgspec.Struct, frozen=True):
    """How the mismatch spreads over responses."""

    responses: int
    mean_quantiles: dict[str, float]
    """Of the mean |g| of a response, nats, by level."""
    max_quantiles: dict[str, float]
    """Of the largest |g| of a response."""
    head: float
    """Share of the responses that are looked at: those with the largest Σ |g|."""
    held: float | None
    """Share of the whole Σ |g| that they hold; ``head`` where all are alike."""
    prompts: int
    """Prompts among them, of ``all_prompts``."""
    all_prompts: int
    identical: float
    """Share of responses on which both log-probs are equal on every token."""


def tail(rows: RunRows, use: np.ndarray) -> Tail:
    """Describe the responses ``use``, bool, shape (R,), of which there is at least one."""
    assert rows.facts is not None
    total, largest = rows.facts["mismatch"][use], rows.facts["sampler_gap_max"][use]
    mean = total / rows.facts["loss_tokens"][use]
    prompt = rows.prompt[use]
    top = np.argsort(-total, kind="stable")[: max(int(np.ceil(HEAD * len(total))), 1)]
    whole = float(total.sum())
    return Tail(
        responses=len(total),
        mean_quantiles=_quantiles(mean),
        max_quantiles=_quantiles(largest),
        head=len(top) / len(total),
        held=float(total[top].sum()) / whole if whole > 0 else None,
        prompts=len(np.unique(prompt[top])),
        all_prompts=len(np.unique(prompt)),
        identical=float((largest == 0).mean()),
    )


def _quantiles(values: np.ndarray) -> dict[str, float]:
    return {f"{level:g}": float(np.quantile(values, level)) for level in LEVELS}


def resets(step: np.ndarray, total: np.ndarray, tokens: np.ndarray) -> list[int]:
    """Steps at which Σ total / Σ tokens falls back: weights were synchronised, or the engine restarted.

    Parameters
    ----------
    step : ndarray, shape (R,), int64
    total, tokens : ndarray, shape (R,)
        Σ |g| and loss tokens of each response.
    """
    steps, code = np.unique(step, return_inverse=True)
    above, below = np.bincount(code, weights=total), np.bincount(code, weights=tokens)
    value = above / below
    residual = np.bincount(code, weights=np.square(total - value[code] * tokens))
    error = np.sqrt(residual) / below
    before, now = value[:-1], value[1:]
    noise = np.hypot(error[:-1], error[1:])
    fallen = (now < FALL * before) & (before - now > SIGNIFICANT * noise)
    return [int(step) for step in steps[1:][fallen]]
