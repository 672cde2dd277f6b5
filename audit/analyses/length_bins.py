"""Steps in bins, and what each prompt adds up to in each of them: what curves over a run are made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BINS = 20
"""Bins of equally many responses at most; a run of fewer steps has one per step."""
CLUSTERS = 1000
"""Prompts beyond this are pooled at random for intervals, which keeps them valid and bounded in cost."""


class Bins(NamedTuple):
    """T bins of consecutive steps."""

    of_row: np.ndarray
    """int64, shape (R,); -1 where the step is null."""
    step: np.ndarray
    """Mean step of the rows of each bin, float64, shape (T,)."""
    steps: np.ndarray
    """Distinct steps in each bin, float64, shape (T,)."""


def step_bins(step: np.ndarray, use: np.ndarray, most: int = BINS) -> Bins:
    """Cut the steps of the used rows into bins of about equally many rows; arrays of shape (R,)."""
    known = use & np.isfinite(step)
    of_row = np.full(len(step), -1, dtype=np.int64)
    if not known.any():
        return Bins(of_row, np.zeros(0), np.zeros(0))
    values, code, counts = np.unique(step[known], return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    wanted = min(most, len(values))
    at = np.arange(len(values)) if wanted == len(values) else (middle * wanted).astype(np.int64)
    _, at = np.unique(at, return_inverse=True)
    of_row[known] = at[code]
    rows = np.bincount(at, weights=counts)
    return Bins(of_row, np.bincount(at, weights=counts * values) / rows, np.bincount(at).astype(np.float64))


def clusters(cluster: np.ndarray) -> tuple[np.ndarray, int]:
    """Dense codes of prompts, pooled to at most :data:`CLUSTERS`, and how many there are; shape (n,)."""
    _, code = np.unique(cluster, return_inverse=True)
    code = code % CLUSTERS
    return code, int(code.max(initial=-1)) + 1


def sums_by_bin(
    values: np.ndarray, cluster: np.ndarray, bins: np.ndarray, clusters_: int, count: int
) -> np.ndarray:
    """Sum values, shape (n,), by cluster and bin: shape (clusters, bins)."""
    flat = np.bincount(cluster * count + bins, weights=values, minlength=clusters_ * count)
    return np.asarray(flat.reshape(clusters_, count))
