"""Groups without a group id: blocks of equal prompts, equal prompts within a step, trajectories.

What contradicts itself gets no groups, or, where it is a small part, loses the rows that cannot be told
apart; what was done is said.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from audit.counted import plural
from audit.importers.blocks import contiguous_blocks
from audit.importers.interface import Grouping

LARGEST = 512
"""A declared or found group size above this is no group size; heuristic."""
WHOLE_STEP = 64
"""Rows of a step from which a single prompt text is not taken for a single group; heuristic."""
FEW = 0.1
"""Share of the rows that may be left out as not separable before there are no groups at all; heuristic."""
ONE_TEXT = 4
"""Multiples of the group size from which one prompt text stands for many prompts (images); heuristic."""
LEFT_OUT = "prompt drawn several times in one step, in mixed order: its groups cannot be told apart"


class Groups(NamedTuple):
    """Group of each row, or why there is none."""

    group: np.ndarray | None
    """Dense code, int64, shape (R,); -1 for a row that has to be left out. None: no row has a group."""
    size: int
    """Typical rows of a group, 0 without groups."""
    notes: tuple[str, ...]
    """What was done, or why it was refused."""
    own: Literal["kept", "by step", "dropped"] = "kept"
    """What becomes of ids that rows bring: kept, told apart by step, or not taken."""


def regroup(
    prompts: np.ndarray, steps: np.ndarray, own: np.ndarray, how: Grouping, size: int | None = None
) -> Groups | None:
    """Rebuild the groups of rows without an id, and test the ids that rows bring.

    Ids that start again at every step, or that every row has for itself, are no groups of a run.

    Parameters
    ----------
    prompts, steps, own : ndarray, shape (R,)
        Codes of the prompt and of the row's own group id (-1: none), and the step, in the order of the log.

    Returns
    -------
    Groups or None
        None where the rows' own ids are right.
    """
    if not len(own) or np.any(own < 0):
        return rebuild(prompts, steps, how, size)
    if len(np.unique(own)) == len(own):
        if np.unique(np.stack([steps, prompts]), axis=1).shape[1] == len(own):
            return None
        found = rebuild(prompts, steps, how, size)
        return found._replace(own="dropped", notes=("every row has a group id for itself", *found.notes))
    if _restart(prompts, steps, own):
        return Groups(None, 0, ("group ids start again at every step: told apart by step",), "by step")
    return None


def _restart(prompts: np.ndarray, steps: np.ndarray, own: np.ndarray) -> bool:
    """Whether an id names other rows in another step.

    It does where the prompt differs from step to step and not within one; and where all ids have the same
    number of rows, 2 or more, in every step in which they occur: an index into the data set, which comes
    round. A group whose rows a trainer spread over steps has neither.
    """
    cells, counts = np.unique(np.stack([own, steps]), axis=1, return_counts=True)
    if len(cells[0]) == len(np.unique(own)):
        return False
    with_prompts = np.unique(np.stack([own, steps, prompts]), axis=1)
    one_prompt_a_cell = with_prompts.shape[1] == cells.shape[1]
    over_steps = np.unique(np.stack([own, prompts]), axis=1).shape[1] > len(np.unique(own))
    if over_steps:
        return bool(one_prompt_a_cell)
    return bool(counts.min() >= 2 and counts.min() == counts.max())


def rebuild(prompts: np.ndarray, steps: np.ndarray, how: Grouping, size: int | None = None) -> Groups:
    """Rebuild the groups of the rows of one unit.

    Parameters
    ----------
    prompts, steps : ndarray, shape (R,)
        Code of the prompt, and step, of each row in the order of the log. Rows of other steps share no group.
    how : {"blocks", "prompt"}
        ``blocks``: the trainer kept a group's rows together; where the log contradicts that, ``prompt`` is
        tried. ``prompt``: the rows were put in another order.
    size : int, optional
        Declared group size.

    Returns
    -------
    Groups
    """
    if size is not None and not 2 <= size <= LARGEST:
        return Groups(None, 0, (f"the declared group size {size} is none: it must be 2 to {LARGEST}",))
    if how == "blocks":
        blocks = contiguous_blocks(prompts, np.unique(steps, return_inverse=True)[1], size, may_be_cut=True)
        if (
            blocks.group is not None
            and blocks.size <= LARGEST
            and not (size is None and _whole_steps(blocks.group, steps, blocks.size))
            and not _one_text(prompts, steps, blocks.size)
        ):
            return Groups(blocks.group, blocks.size, (blocks.reason,))
        found = by_prompt(prompts, steps, size)
        if found.group is not None:
            return Groups(found.group, found.size, (f"no blocks: {blocks.reason}", *found.notes))
        return Groups(None, 0, (blocks.reason, *found.notes))
    return by_prompt(prompts, steps, size)


def by_prompt(prompts: np.ndarray, steps: np.ndarray, size: int | None = None) -> Groups:
    """Take all rows of one prompt in one step as a group, and refuse what that cannot mean.

    Without a declared size the size is the most frequent count, by rows. A prompt with fewer rows is a
    group that lost some (noted). One with 2 or 3 times as many was drawn more than once: cut in order where
    its rows stand in blocks, else left out.
    """
    if not len(prompts):
        return Groups(None, 0, ("the log holds no rows",))
    pairs = np.stack([np.unique(steps, return_inverse=True)[1], np.unique(prompts, return_inverse=True)[1]])
    _, code, counts = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
    code = code.reshape(-1)
    sizes, times = np.unique(counts, return_counts=True)
    if size is None:
        size = int(sizes[np.argmax(sizes * times)])
        if size < 2:
            return Groups(None, 0, ("no prompt repeats within a step: there are no groups to rebuild",))
        if size > LARGEST or (len(counts) <= np.unique(steps).size and size >= WHOLE_STEP):
            return Groups(None, 0, (_same_text(size),))
    if counts.max() >= ONE_TEXT * size:
        return Groups(None, 0, (_same_text(int(counts.max()), size),))
    large = counts > size
    group, notes = _split(code, counts, size)
    lost = int((group < 0).sum())
    if lost > FEW * len(prompts):
        reason = f"{int(large.sum())} of {len(counts)} prompts have more than {size} rows in a step"
        return Groups(None, 0, (f"{reason}: not separable into groups of {size}",))
    small = int((counts < size).sum())
    made = [f"groups rebuilt from equal prompts within a step: {size} rows each"]
    if small:
        made.append(f"{small} of {len(counts)} groups hold fewer than {size} rows: some were not logged")
    return Groups(group, size, (*made, *notes))


def _split(code: np.ndarray, counts: np.ndarray, size: int) -> tuple[np.ndarray, list[str]]:
    """Dense groups; prompts with a multiple of ``size`` rows are cut where their rows stand together."""
    group = code.astype(np.int64)
    following = int(code.max()) + 1
    cut = 0
    for which in np.flatnonzero(counts > size).tolist():
        rows = np.flatnonzero(code == which)
        runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
        if len(rows) % size == 0 and all(len(run) % size == 0 for run in runs):
            for at, place in enumerate(range(0, len(rows), size)):
                group[rows[place : place + size]] = which if at == 0 else following
                following += at > 0
            cut += 1
        else:
            group[rows] = -1
    _, dense = np.unique(group[group >= 0], return_inverse=True)
    group[group >= 0] = dense
    if not cut:
        return group, []
    were = "was" if cut == 1 else "were"
    return group, [f"{plural(cut, 'prompt')} drawn several times in a step {were} cut into groups in order"]


def _whole_steps(group: np.ndarray, steps: np.ndarray, size: int) -> bool:
    """Whether every step is one large block: rather one text for many prompts than one group."""
    return size >= WHOLE_STEP and len(np.unique(group)) <= len(np.unique(steps))


def _one_text(prompts: np.ndarray, steps: np.ndarray, size: int) -> bool:
    """Whether one text stands for most of a step that has far more rows than one group."""
    _, per_step = np.unique(steps, return_counts=True)
    _, per_text = np.unique(np.stack([steps, prompts]), axis=1, return_counts=True)
    return bool(per_text.max() >= ONE_TEXT * size and 2 * per_text.max() > per_step.max())


def _same_text(rows: int, size: int | None = None) -> str:
    against = f", groups hold {size}" if size else ""
    return (
        f"one prompt text covers {rows} rows of a step{against}: what tells its prompts apart (images, "
        "system prompt) was not logged"
    )
