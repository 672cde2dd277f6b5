"""Steps in a few bins of about as many groups each, so that a share over time has few rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST = 10
"""Bins; a run with no more steps has one a step."""


class StepBins(NamedTuple):
    """K bins of consecutive steps."""

    code: np.ndarray
    """Bin of each entry, int64; -1 where its step is not known."""
    spans: list[tuple[int, int]]
    """First and last step of each bin."""


def step_bins(step: np.ndarray, most: int = MOST) -> StepBins:
    """Cut steps into at most ``most`` bins; ``step`` is float64 with NaN where unknown, any length."""
    known = np.isfinite(step)
    steps, counts = np.unique(step[known], return_counts=True)
    if not len(steps):
        return StepBins(np.full(len(step), -1, dtype=np.int64), [])
    # A step belongs to the bin that its middle entry falls into.
    middle = np.cumsum(counts) - counts / 2
    _, of_step = np.unique(np.floor(middle * min(most, len(steps)) / counts.sum()), return_inverse=True)
    if len(steps) <= most:
        of_step = np.arange(len(steps))
    code = np.full(len(step), -1, dtype=np.int64)
    code[known] = of_step[np.searchsorted(steps, step[known])]
    found = [steps[of_step == at] for at in range(int(of_step.max()) + 1)]
    return StepBins(code, [(int(part[0]), int(part[-1])) for part in found])
