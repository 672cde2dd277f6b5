"""Pareto k-hat of importance weights: how heavy their tail is, and whether averages under them hold."""

from __future__ import annotations

import math

import numpy as np

LEAST_TAIL = 5
"""Fewer weights in the tail than this tell nothing."""


def pareto_k(log_weights: np.ndarray) -> tuple[float | None, int]:
    """Shape of the generalised Pareto distribution that fits the largest weights, and how many those are.

    Parameters
    ----------
    log_weights : ndarray, shape (S,)
        Up to a constant; finite.

    Returns
    -------
    k : float or None
        None where the tail is too short, or does not vary.
    tail : int
        min(S / 5, 3 sqrt(S)), rounded up.

    Notes
    -----
    Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling", JMLR 25(72): weights
    have about 1 / k finite moments. k >= 1: not even their mean; k above :func:`reliable_k`: an average under
    them needs far more samples than there are.
    """
    size = len(log_weights)
    tail = math.ceil(min(size / 5, 3 * math.sqrt(size)))
    if tail < LEAST_TAIL:
        return None, tail
    ordered = np.sort(log_weights - log_weights.max())
    excess = np.exp(ordered[-tail:]) - np.exp(ordered[-tail - 1])
    excess = excess[excess > 0]
    # Rounding of equal weights is no tail.
    if len(excess) < LEAST_TAIL or excess[-1] < 1e-12:
        return None, tail
    return gpd_shape(excess), tail


def reliable_k(size: int) -> float:
    """Largest k at which an average over ``size`` weights is reliable: min(1 - 1 / log10(S), 0.7)."""
    return min(1.0 - 1.0 / math.log10(size), 0.7) if size > 10 else 0.0


def effective_share(totals: np.ndarray) -> np.ndarray:
    """(Σ W)² / (n Σ W²) from sums (W, W², n), shape (..., 3): shape (..., 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., :1] ** 2 / (totals[..., 1:2] * totals[..., 2:3]))


def gpd_shape(excess: np.ndarray) -> float:
    """Shape k of a generalised Pareto distribution of exceedances, shape (M,), sorted, positive.

    Zhang & Stephens (2009), "A new and efficient estimation method for the generalized Pareto distribution",
    Technometrics 51(3): 316-325, with the weakly informative prior of Vehtari et al. (2024), app. G, which
    draws short tails towards 0.5.
    """
    size = len(excess)
    grid = 30 + math.floor(math.sqrt(size))
    quartile = excess[math.floor(size / 4 + 0.5) - 1]
    theta = 1.0 / excess[-1] + (1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3.0 * quartile)
    shape = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = size * (np.log(-theta / shape) - shape - 1.0)
    weight = np.exp(profile - profile.max())
    chosen = float((theta * weight).sum() / weight.sum())
    found = float(np.log1p(-chosen * excess).mean())
    return (size * found + 10 * 0.5) / (size + 10)
