"""What a logged scalar is, beside what its name says: the KL's estimator, the reward's weights."""

from __future__ import annotations

import numpy as np

from audit.analyses.logged_scalars import Series
from audit.analyses.loss_sample import LossSample
from audit.analyses.loss_surrogates import kl_sums
from audit.analyses.reward_weights import components_of
from audit.facts.rows import RunRows

CLOSE = 1e-4
"""Relative misfit up to which a recomputed scalar is the logged one; heuristic."""


def kl_note(sample: LossSample, logged: Series | None, slices: dict[str, np.ndarray]) -> str:
    """Say which estimator the logged KL is, where it is not k3; empty where it is, or nothing is known."""
    sums = kl_sums(sample)
    if logged is None or not sums:
        return ""
    window = np.where(sample.rows, logged.window, -1)
    fitting = []
    for name, values in sums.items():
        for part in slices.values():
            made = _mean_of_means(values, sample.count, part, window, len(logged.value))
            if _same(made, logged):
                fitting.append(name)
    if not fitting or "k3" in fitting:
        return ""
    return f"the logged {logged.name} is {' or '.join(dict.fromkeys(fitting))} of the policy to the reference"


def reward_note(rows: RunRows, logged: Series | None) -> str:
    """Say where the logged reward is not the mean of the rewards that made the advantages."""
    if logged is None or not rows.has("reward"):
        return ""
    reward = rows.numpy("reward")
    first = (rows.epoch == 0) & ~rows.greedy & np.isfinite(reward)
    window = np.where(first, logged.window, -1)
    every = np.zeros(rows.num_rows, dtype=np.int64)
    if _same(_mean_of_means(reward, np.ones(len(reward)), every, window, len(logged.value)), logged):
        return ""
    parts = components_of(rows)
    if len(parts) < 2:
        return ""
    total = np.nansum(np.stack(list(parts.values())), axis=0)
    if _same(_mean_of_means(total, np.ones(len(total)), every, window, len(logged.value)), logged):
        return (
            f"the logged {logged.name} is the unweighted sum of the components, not the reward that trained"
        )
    return ""


def _mean_of_means(
    values: np.ndarray, count: np.ndarray, part: np.ndarray, window: np.ndarray, windows: int
) -> np.ndarray:
    """Mean over the parts of each window of sum(values) / sum(count), shape (windows,); NaN without rows."""
    used = window >= 0
    # One code per pair: unique over one dimension sorts numbers, over two it compares rows.
    width = int(part.max(initial=0)) + 1
    pairs, code = np.unique(window[used] * width + part[used], return_inverse=True)
    of_pair = pairs // width
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.bincount(code, weights=values[used]) / np.bincount(code, weights=count[used])
        of = np.bincount(of_pair, weights=ratio, minlength=windows)
        return np.asarray(of / np.bincount(of_pair, minlength=windows))


def _same(made: np.ndarray, logged: Series) -> bool:
    use = np.isfinite(made)
    if int(use.sum()) < 3:
        return False
    size = float(np.sqrt(np.mean(logged.value[use] ** 2)))
    miss = float(np.abs(made[use] - logged.value[use]).max())
    return size > 0 and miss <= CLOSE * size + logged.rounding
