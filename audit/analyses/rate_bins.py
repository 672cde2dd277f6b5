"""Groups by the success rate of their prompt, which is estimated without the group itself."""

from __future__ import annotations

import numpy as np

from audit.analyses.samples import Samples
from audit.analyses.visits import left_out_rate, neighbours

EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Bins of the success rate, [low, high), the last with its end; heuristic."""


def rate_bins(samples: Samples) -> np.ndarray:
    """Bin of each group, int64, shape (N,); -1 where its prompt has no other visit that was judged.

    A group that chose its own bin would bias whatever is measured in it: of a prompt solved half the time,
    the groups that happen to look hard would be called hard.
    """
    rate = left_out_rate(samples, neighbours(samples))
    inside = np.searchsorted(EDGES[1:-1], np.nan_to_num(rate), side="right")
    return np.where(np.isfinite(rate), inside, -1)
