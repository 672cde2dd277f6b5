"""Shares of groups, samples or prompts, with intervals that do not vanish where a share is 0 or 1."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.stats import LEVEL, Estimate, ratio_of_sums


def share_of(flags: np.ndarray, cluster: np.ndarray, among: np.ndarray | None = None) -> Estimate:
    """Share of entries that are flagged, with an interval that resamples clusters.

    Parameters
    ----------
    flags : ndarray, bool, shape (K,)
    cluster : ndarray, int64, shape (K,)
        Dense codes.
    among : ndarray, bool, shape (K,), optional
        The entries that count; n is their number. Default: all.

    Notes
    -----
    Where no entry is flagged, or all are, every resample repeats that, and the bootstrap claims certainty.
    The interval then is Clopper and Pearson's (1934) with the clusters as the trials: 0 of C gives
    [0, 1 - (α/2)^(1/C)].
    """
    among = np.ones(len(flags), dtype=bool) if among is None else among
    made = ratio_of_sums((flags & among).astype(float), among.astype(float), cluster, int(among.sum()))
    clusters = len(np.unique(cluster[among]))
    if clusters < 2 or made.value not in (0.0, 1.0):
        return made
    reach = 1.0 - ((1.0 - LEVEL) / 2) ** (1.0 / clusters)
    low, high = (0.0, reach) if made.value == 0.0 else (1.0 - reach, 1.0)
    return msgspec.structs.replace(made, low=low, high=high)
