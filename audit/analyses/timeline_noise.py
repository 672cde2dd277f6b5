"""The noise of a gap between two runs over bins of steps: prompts, and the gap's own wander."""

from __future__ import annotations

import numpy as np

from audit.objectives.arrays import silent

LEAST_PROMPTS = 2.0
"""Prompts that must carry the variance before a gap is tested; heuristic."""
LEAST_CHANGES = 5
"""Changes from bin to bin that a wander is estimated from; heuristic."""
EXACT = 1e-9
"""A gap within this of 0, relative to its noise or absolutely, is none."""


@silent
def wander(gap: np.ndarray, residual: np.ndarray) -> float:
    """Variance that the gap gains per bin beyond prompt noise, as a random walk would.

    Parameters
    ----------
    gap : ndarray, shape (K,)
        B - A in each bin; NaN where unknown.
    residual : ndarray, shape (K, C)
        Linearised share of each prompt in the gap of each bin.

    Notes
    -----
    The squared distance of the gaps from a constant, a drift and one jump is set equal to its expectation
    under prompt noise and a random walk (method of moments). A steady drift and a single jump are what is
    looked for, and count as no noise; of all places for the jump the one that leaves the least wander is
    taken. Held against the spread of changes from bin to bin, far bins tell more of a walk.
    """
    at = np.flatnonzero(np.isfinite(gap))
    if len(at) <= LEAST_CHANGES:
        return 0.0
    values, parts = gap[at] - gap[at].mean(), residual[at] * np.sqrt(_few(residual[at]))[:, None]
    noise, walk = parts @ parts.T, np.minimum.outer(at, at).astype(float)
    found = []
    for jump in range(1, len(at)):
        explained = np.column_stack([np.ones(len(at)), at, np.arange(len(at)) >= jump])
        basis = np.linalg.qr(explained)[0]
        rest = np.eye(len(at)) - basis @ basis.T
        left = values @ rest @ values
        if left <= EXACT**2 * (values @ values):
            return 0.0
        found.append((left - (rest * noise).sum()) / (rest * walk).sum())
    return float(max(min(found), 0.0))


@silent
def p_values(
    gap: np.ndarray, residual: np.ndarray, walk: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Test each bin's gap against that of the first bin, and the first bin's against 0.

    Returns
    -------
    moved, error, p, reach : ndarray, shape (K,)
        The change of the gap, its standard error, the two-sided p-value of a t test (NaN where too few
        prompts carry the variance), and the 97.5 % quantile of that t distribution.
    """
    from scipy.special import stdtr, stdtrit

    change = np.where(np.arange(len(gap))[:, None] == 0, residual, residual - residual[:1])
    moved = np.where(np.arange(len(gap)) == 0, gap, gap - gap[0])
    variance = _variance(change)
    error = np.sqrt(variance + walk * np.arange(len(gap)))
    carriers, prompts = _carriers(change), (change != 0).sum(axis=1)
    # The fourth moment of a normal is 3 σ⁴: C equal prompts look like C / 3 carriers.
    freedom = np.minimum(3.0 * carriers, prompts) - 1.0
    tested = np.isfinite(moved) & (carriers >= LEAST_PROMPTS) & (error > EXACT * np.abs(moved))
    p, reach = np.full(len(gap), np.nan), np.full(len(gap), np.nan)
    same = np.isfinite(moved) & (np.abs(moved) <= EXACT) & (error <= EXACT)
    p[same], reach[same] = 1.0, 0.0
    tested &= ~same & (error > 0)
    reach[tested] = stdtrit(freedom[tested], 0.975)
    p[tested] = 2.0 * stdtr(freedom[tested], -np.abs(moved[tested]) / error[tested])
    return moved, error, p, reach


@silent
def _variance(residual: np.ndarray) -> np.ndarray:
    """Σ over prompts of the squared residual, shape (K,), for prompts that are there."""
    return np.asarray((residual * residual).sum(axis=1) * _few(residual))


def _few(residual: np.ndarray) -> np.ndarray:
    """C / (C - 1) of the C prompts that are there, shape (K,)."""
    there = (residual != 0).sum(axis=1)
    return np.asarray(there / np.maximum(there - 1, 1))


def _carriers(residual: np.ndarray) -> np.ndarray:
    """How many prompts carry the variance, shape (K,): (Σ z²)² / Σ z⁴."""
    square = residual * residual
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(square.sum(axis=1) ** 2 / (square * square).sum(axis=1)))
