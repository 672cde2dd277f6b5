"""The path of mean length over a run with prompts held fixed: effects of steps beside those of prompts.

Length = prompt + bin of steps, by least squares. Where bins are not linked by prompts that come up in several
of them, nothing tells a change of lengths from a change of prompts, and there is no path.
"""

from __future__ import annotations

import numpy as np

from audit.analyses.length_bins import CLUSTERS, Bins, sums_by_bin
from audit.analyses.length_rows import LengthRows
from audit.facts.rows import dense

_SINGULAR = -25.0
"""Log of the determinant, relative to the diagonal: below this it is what rounding leaves of 0."""
_PROMPTS = 10_000
"""Prompts whose equations are formed at a time."""


def path_sums(data: LengthRows, use: np.ndarray, bins: Bins) -> np.ndarray:
    """Normal equations of the fit, prompts taken out: one row per cluster, shape (C, T·T + T).

    With n[p, b] responses of prompt p in bin b, sums s[p, b], totals N[p] and S[p]: the matrix
    diag(n) - n n' / N and the right side s - n S / N, which add up over prompts.
    """
    times = len(bins.step)
    prompt = dense(data.cluster[use])
    prompts = int(prompt.max(initial=-1)) + 1
    count = min(prompts, CLUSTERS)
    at = bins.of_row[use]
    n = sums_by_bin(np.ones(len(at)), prompt, at, prompts, times)
    s = sums_by_bin(data.length[use], prompt, at, prompts, times)
    made = np.zeros((count, times * times + times))
    for first in range(0, prompts, _PROMPTS):
        some = slice(first, first + _PROMPTS)
        # The code of a cluster is that of its prompt, pooled.
        np.add.at(made, np.arange(prompts)[some] % count, _normal_equations(n[some], s[some]))
    return made


def _normal_equations(n: np.ndarray, s: np.ndarray) -> np.ndarray:
    total = n.sum(axis=1)
    matrix = -np.einsum("pa,pb->pab", n, n / total[:, None])
    diagonal = np.arange(n.shape[1])
    matrix[:, diagonal, diagonal] += n
    right = s - n * (s.sum(axis=1) / total)[:, None]
    return np.hstack([matrix.reshape(len(n), -1), right])


def path_of(totals: np.ndarray, times: int) -> np.ndarray:
    """Solve the sums, shape (..., T·T + T), for the bins: shape (..., T), the first 0; NaN if not linked."""
    matrix = totals[..., : times * times].reshape(*totals.shape[:-1], times, times)[..., 1:, 1:]
    right = totals[..., times * times :][..., 1:]
    made = np.zeros((*totals.shape[:-1], times))
    if times == 1:
        return made
    # The matrix is the Laplacian of a graph, grounded at the first bin: singular where bins are not linked.
    with np.errstate(divide="ignore", invalid="ignore"):
        log_size = np.log(np.diagonal(matrix, axis1=-2, axis2=-1)).sum(axis=-1)
        linked = np.linalg.slogdet(matrix).logabsdet - log_size > _SINGULAR
    safe = np.where(linked[..., None, None], matrix, np.eye(times - 1))
    solved = np.linalg.solve(safe, right[..., None])[..., 0]
    made[..., 1:] = np.where(linked[..., None], solved, np.nan)
    return made
