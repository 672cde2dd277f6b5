"""Groups without a group id: contiguous blocks of equal prompts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from audit.counted import plural

LEAST = 2
"""Rows of the smallest group."""
TOLD = 2
"""Runs from which, before the last, a size can be known."""


class Blocks(NamedTuple):
    """Group of each row, or why there is none."""

    group: np.ndarray | None
    """Dense code, int64, shape (R,); -1 for rows of no group."""
    size: int
    reason: str
    """How the groups were found, or why they were not."""


def contiguous_blocks(
    prompts: np.ndarray, batch: np.ndarray, size: int | None = None, *, may_be_cut: bool = False
) -> Blocks:
    """Cut rows into blocks of ``size`` with one prompt each.

    Parameters
    ----------
    prompts : ndarray, shape (R,)
        Prompt code of each row, in the order in which the trainer wrote them.
    batch : ndarray, shape (R,)
        Code of the file of each row; a block never spans two.
    size : int, optional
        Group size, where it is declared. Otherwise it is the greatest common divisor of the runs of equal
        prompts, since a prompt drawn twice in a row makes one run of two groups.
    may_be_cut : bool
        The log may end within a block: only the very last run may be shorter.

    Returns
    -------
    Blocks
        Without groups where the evidence contradicts itself: a run that is no multiple of the size, or no
        prompt that repeats.
    """
    if not len(prompts):
        return Blocks(None, 0, "the log holds no rows")
    new = np.ones(len(prompts), dtype=bool)
    new[1:] = (prompts[1:] != prompts[:-1]) | (batch[1:] != batch[:-1])
    starts = np.flatnonzero(new)
    runs = np.diff(np.append(starts, len(prompts)))
    # A log that was cut ends within a block; with two runs alone that could be said of anything.
    whole = runs[:-1] if may_be_cut and len(runs) > TOLD and _cut(runs, size) else runs
    found = size if size is not None else math.gcd(*(int(run) for run in whole))
    if found < 2:
        seen = ", ".join(str(run) for run in np.unique(runs)[:5])
        return Blocks(
            None, 0, f"rows of equal prompts come in runs of {seen}: no common group size of 2 or more"
        )
    odd = int(np.sum(whole % found != 0))
    if odd:
        reason = f"{odd} of {len(runs)} runs of equal prompts are no multiple of the group size {found}"
        return Blocks(None, 0, reason)
    within = np.arange(len(prompts)) - np.repeat(starts, runs)
    first = (within % found) == 0
    doubled = int(np.sum(runs > found))
    reason = f"groups rebuilt from contiguous blocks of {found} rows with equal prompts"
    if doubled:
        fill = "fills" if doubled == 1 else "fill"
        reason += f"; {plural(doubled, 'prompt')} {fill} several blocks in a row, each a group of its own"
    group = np.cumsum(first) - 1
    if runs[-1] % found:
        reason += f"; 1 of {group[-1] + 1} groups hold fewer than {found} rows: the log was cut in the last"
    return Blocks(group, found, reason)


def _cut(runs: np.ndarray, size: int | None) -> bool:
    """Whether all runs but the last have a common size, and the last breaks it."""
    common = size if size is not None else math.gcd(*(int(run) for run in runs[:-1]))
    return common >= LEAST and not np.any(runs[:-1] % common) and bool(runs[-1] % common)
