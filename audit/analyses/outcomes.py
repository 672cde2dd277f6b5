"""What came out of a run, per response: reward, length, correctness, truncation."""

from __future__ import annotations

import numpy as np

from audit.facts.rows import RunRows
from audit.stats import Estimate, mean


def first_pass(rows: RunRows) -> np.ndarray:
    """bool, shape (R,): trained rows of the first inner epoch, so that no response counts twice."""
    if not rows.num_rows:
        return np.zeros(0, dtype=bool)
    return np.asarray(~rows.greedy & (rows.epoch == rows.epoch.min()))


def correctness(rows: RunRows) -> tuple[np.ndarray, str]:
    """Split responses into correct (1), wrong (0) and neither (NaN); shape (R,), and how it was done.

    The ``correct`` column where logged; else, for a reward with two values, the larger is correct; else the
    side of the group's mean reward (the sign that the group-mean advantage has).
    """
    if rows.has("correct"):
        return rows.numpy("correct"), "column 'correct'"
    reward = rows.numpy("reward")
    values = np.unique(reward[np.isfinite(reward)])
    if len(values) == 2:
        return np.where(np.isfinite(reward), (reward == values[1]).astype(float), np.nan), (
            f"reward {values[1]:g} against {values[0]:g}"
        )
    finite = np.isfinite(reward)
    count = np.bincount(rows.sample, weights=finite.astype(float))
    total = np.bincount(rows.sample, weights=np.where(finite, reward, 0.0))
    centred = reward - (total / np.maximum(count, 1.0))[rows.sample]
    side = np.where(centred > 0, 1.0, np.where(centred < 0, 0.0, np.nan))
    return side, "reward above or below the group's mean"


def truncated(rows: RunRows) -> np.ndarray | None:
    """float64, shape (R,): 1 where the response ended by length, NaN where it has no finish_reason.

    None where finish_reason was not logged.
    """
    return rows.cut_off


def mean_of(rows: RunRows, values: np.ndarray, among: np.ndarray | None = None) -> Estimate:
    """Mean of a per-response quantity, shape (R,), over the first pass, with an interval by prompt."""
    use = first_pass(rows) if among is None else first_pass(rows) & among
    return mean(values[use], rows.prompt[use])
