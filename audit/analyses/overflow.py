"""Rewards so large that what is computed of them is beyond float64."""

from __future__ import annotations

import numpy as np

from audit.facts.rows import RunRows


def overflow_notes(rows: RunRows) -> list[str]:
    """Say that sums of rewards, or of their squares, overflow; nothing where they do not.

    A result that overflowed is infinite or NaN, and shown as not known. Of n rewards the sum of squares stays
    finite as long as the largest of them is below sqrt(max / n).
    """
    reward = np.abs(rows.numpy("reward"))
    largest = float(reward[np.isfinite(reward)].max(initial=0.0))
    bound = float(np.sqrt(np.finfo(np.float64).max / max(len(reward), 1)))
    if largest < bound:
        return []
    return [
        f"rewards reach {largest:.3g} in size: sums or squares of them overflow float64 (beyond {bound:.2g} "
        "for as many), and what rests on those is not told"
    ]
