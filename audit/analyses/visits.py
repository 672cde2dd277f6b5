"""Visits to a prompt, in time: which other groups say what its success rate was when a group was sampled."""

from __future__ import annotations

import numpy as np

from audit.analyses.samples import Samples

NEIGHBOURS = 2
"""Other visits that stand for the success rate at the time of one, half before and half after; heuristic.

More make the rate exact, fewer keep it of the moment. Rates move: in the sample runs, where a prompt comes
back every 12 steps, nine visits predict half of the zero-signal groups that there are, two visits 85 %.
"""


def in_time(samples: Samples) -> np.ndarray:
    """Order of the groups by prompt, then step, int64, shape (N,); without steps, as logged."""
    return np.lexsort((np.arange(samples.num_groups), samples.step, samples.prompt))


def neighbours(samples: Samples, most: int = NEIGHBOURS) -> np.ndarray:
    """The visits to the same prompt that are nearest in time, the group itself left out.

    Returns
    -------
    ndarray, int64, shape (N, 2 · most)
        Groups, -1 for none: as many as ``most`` of them, alternately after and before; at the ends of a run
        from one side. A group without prompt_id has none.
    """
    order = in_time(samples)
    found = np.full((samples.num_groups, 2 * most), -1, dtype=np.int64)
    at = np.arange(samples.num_groups)
    for slot in range(2 * most):
        shift = (slot // 2 + 1) * (1 if slot % 2 == 0 else -1)
        inside = (at + shift >= 0) & (at + shift < len(order))
        here, there = order[at[inside]], order[at[inside] + shift]
        same = (samples.prompt[here] == samples.prompt[there]) & (samples.prompt[here] >= 0)
        found[here[same], slot] = there[same]
    given = found >= 0
    found[np.cumsum(given, axis=1) > most] = -1
    return found


def left_out_rate(samples: Samples, near: np.ndarray) -> np.ndarray:
    """Success rate of each group's prompt from ``near`` alone, float64, shape (N,); NaN where unknown."""
    if samples.correct is None:
        return np.full(samples.num_groups, np.nan)
    judged = np.isfinite(samples.correct)
    right = samples.per_group(np.where(judged, samples.correct, 0.0))
    count = samples.per_group(judged.astype(float))
    k = np.where(near >= 0, right[near], 0.0).sum(axis=1)
    n = np.where(near >= 0, count[near], 0.0).sum(axis=1)
    return np.asarray(np.divide(k, n, out=np.full(len(n), np.nan), where=n > 0))


def blocks(samples: Samples, group_size: int) -> np.ndarray:
    """Merge consecutive visits to a prompt until they hold ``group_size`` samples; code, int64, shape (N,).

    The last block of a prompt may hold fewer. Groups without prompt_id are blocks of their own.
    """
    order = in_time(samples)
    each = -(-group_size // max(samples.typical_size, 1))
    prompt = samples.prompt[order]
    starts = np.flatnonzero(np.concatenate([[True], prompt[1:] != prompt[:-1]])) if len(order) else order
    rank = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    opens = (rank % each == 0) | (prompt < 0)
    code = np.zeros(len(order), dtype=np.int64)
    code[order] = np.cumsum(opens) - 1
    return code
