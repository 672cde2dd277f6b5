"""Ratios of sums over the responses of many buckets at once, each with its interval by prompt."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from audit.analyses.step_bins import step_bins
from audit.facts.rows import RunRows
from audit.objectives.arrays import silent
from audit.stats import Estimate, bootstrap, estimate

FEW = 50
"""Buckets with fewer prompts are resampled on their own: an interval from few prompts is wider."""
BINS = 20
"""Bins of steps; a run with no more steps has one a step."""


class Bucket(msgspec.Struct, frozen=True):
    """A part of the responses or of their tokens."""

    name: str
    part: float
    """What is divided: a count of tokens, or a sum over them."""
    tokens: int
    """Loss tokens, or what else divides it."""
    value: Estimate
    """part / tokens; n counts the responses that have such tokens."""


class Trend(msgspec.Struct, frozen=True):
    """A quantity over the steps of a run."""

    slope: Estimate
    """Change of the quantity from the first step to the last by a straight line through all tokens."""
    points: list[Bucket]


def prompt_sums(values: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """Sum of a per-response quantity, shape (R,), over the responses to each prompt, shape (P,)."""
    return np.bincount(prompt, weights=values, minlength=int(prompt.max(initial=-1)) + 1)


def parts(
    names: Sequence[str],
    numerators: Sequence[np.ndarray],
    denominators: Sequence[np.ndarray],
    prompt: np.ndarray,
) -> list[Bucket]:
    """One bucket a name, of quantities that each response has in every bucket; arrays of shape (R,)."""
    n = np.array([np.count_nonzero(held) for held in denominators], dtype=np.int64)
    above = [prompt_sums(values, prompt) for values in numerators]
    below = [prompt_sums(values, prompt) for values in denominators]
    if not names:
        return []
    return buckets(names, np.column_stack(above), np.column_stack(below), n)


def by_code(
    names: Sequence[str],
    code: np.ndarray,
    numerator: np.ndarray,
    denominator: np.ndarray,
    prompt: np.ndarray,
) -> list[Bucket]:
    """One bucket a name, each response in the bucket of its code (-1: in none); arrays of shape (R,)."""
    if not names:
        return []
    held = code >= 0
    prompts, count = int(prompt.max(initial=-1)) + 1, len(names)
    cell = prompt[held] * count + code[held]

    def sums(values: np.ndarray) -> np.ndarray:
        made = np.bincount(cell, weights=values[held], minlength=prompts * count)
        return made.reshape(prompts, count)

    n = np.bincount(code[held & (denominator > 0)], minlength=count)
    return buckets(names, sums(numerator), sums(denominator), n)


def by_rank(
    what: str, rank: np.ndarray, numerator: np.ndarray, denominator: np.ndarray, prompt: np.ndarray
) -> list[Bucket]:
    """One bucket a rank, or at most :data:`BINS` of consecutive ranks each; arrays of shape (R,).

    Parameters
    ----------
    what : str
        What is ranked, as ``inner update``; a bucket is called ``inner update 3`` or ``inner updates 3–5``.
    """
    bins = step_bins(rank.astype(float), BINS)
    names = [f"{what} {a}" if a == b else f"{what}s {a}–{b}" for a, b in bins.spans]
    return by_code(names, bins.code, numerator, denominator, prompt)


def trend(rows: RunRows, use: np.ndarray, numerator: np.ndarray, denominator: np.ndarray) -> Trend:
    """Follow Σ numerator / Σ denominator over steps; arrays of shape (R,), ``use`` bool."""
    step, prompt = rows.step[use].astype(float), rows.prompt[use]
    above, below = numerator[use], denominator[use]
    bins = step_bins(step, BINS)
    names = [str(a) if a == b else f"{a}–{b}" for a, b in bins.spans]
    points = by_code(names, bins.code, above, below, prompt)
    return Trend(_slope(step, above, below, prompt), points)


def standard_error(numerator: np.ndarray, denominator: np.ndarray, prompt: np.ndarray) -> float | None:
    """Standard error of Σ numerator / Σ denominator, clustered by prompt; None from fewer than two prompts.

    Linearised ratio estimator: sqrt(C / (C - 1) · Σ_c (x_c - r y_c)²) / Σ y (Cochran 1977, eq. 6.13).
    """
    x, y = prompt_sums(numerator, prompt), prompt_sums(denominator, prompt)
    x, y = x[y > 0], y[y > 0]
    if len(y) < 2:
        return None
    residual = x - x.sum() / y.sum() * y
    found = float(np.sqrt(len(y) / (len(y) - 1) * np.square(residual).sum()) / y.sum())
    return found if np.isfinite(found) else None


@silent
def buckets(names: Sequence[str], above: np.ndarray, below: np.ndarray, n: np.ndarray) -> list[Bucket]:
    """One bucket a name, from sums over each prompt, shape (P, B); n responses each, shape (B,)."""
    held = ((above != 0) | (below != 0)).sum(axis=0)
    many = np.flatnonzero(held >= FEW)
    found: dict[int, Estimate] = {}
    if len(many):
        made = bootstrap(np.column_stack([above[:, many], below[:, many]]), _ratios)
        found = {int(at): estimate(made, int(n[at]), place) for place, at in enumerate(many)}
    for at in np.flatnonzero(held < FEW):
        made = bootstrap(np.column_stack([above[:, at], below[:, at]]), _ratios)
        found[int(at)] = estimate(made, int(n[at]))
    return [
        Bucket(name, float(above[:, at].sum()), round(float(below[:, at].sum())), found[at])
        for at, name in enumerate(names)
    ]


def _ratios(totals: np.ndarray) -> np.ndarray:
    half = totals.shape[-1] // 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., :half] / totals[..., half:])


def _slope(step: np.ndarray, above: np.ndarray, below: np.ndarray, prompt: np.ndarray) -> Estimate:
    """Weighted least squares of above / below on steps scaled to [0, 1], weights ``below``."""
    n = int(np.count_nonzero(below))
    if n < 3 or np.ptp(step) == 0:
        return Estimate(None, None, None, n)
    x = (step - step.min()) / np.ptp(step)
    columns = [below, below * x, below * x * x, above, above * x]
    sums = np.column_stack([prompt_sums(column, prompt) for column in columns])
    return estimate(bootstrap(sums, _slope_of_sums), n)


def _slope_of_sums(totals: np.ndarray) -> np.ndarray:
    w, wx, wxx, y, xy = (totals[..., i : i + 1] for i in range(5))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((w * xy - wx * y) / (w * wxx - wx * wx))
