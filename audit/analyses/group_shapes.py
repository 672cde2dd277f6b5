"""Groups that are not what a group should be: partial, merged, duplicated, of several prompts."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.outcomes import first_pass
from audit.analyses.samples import Samples, trajectories
from audit.analyses.skips import Skips
from audit.analyses.text_codes import NEEDS, text_codes
from audit.facts.rows import RunRows, dense

LEAST_TEXTS = 3
"""Distinct texts that a group must have before an equal one is called a copy; heuristic."""
_SHOWN = 8


class SizeCount(msgspec.Struct, frozen=True):
    """How many groups have one size."""

    size: int
    groups: int


class GroupShapes(msgspec.Struct, frozen=True):
    """Counts of groups and rows of the first inner pass; unscorable rows are rows of their group here."""

    expected_size: int
    """Of run.json, else the most frequent."""
    declared: bool
    """Whether run.json says the size."""
    sizes: list[SizeCount]
    """The most frequent sizes."""
    smaller: int
    larger: int
    """A multiple of the expected size points at merged groups."""
    singletons: int
    mixed_prompts: int | None
    """Groups whose rows have several prompt_ids."""
    several_steps: int | None
    """Groups with rows in more than one step."""
    repeated_samples: int | None
    """Rows whose (group_id, sample_index) occurred before."""
    same_prompt_in_step: int | None
    """Groups that share their prompt with another group of the same step."""
    copies: int | None
    """Groups whose texts and rewards repeat, in order, those of an earlier group of the prompt; of at least
    three texts, so that chance is unlikely."""
    unscorable: int
    """Rows without a finite reward."""
    touched_by_unscorable: int
    """Groups that such rows leave with fewer samples."""
    ungrouped: int
    """Rows without group_id."""


def group_shapes(
    rows: RunRows, samples: Samples, skips: Skips, among: np.ndarray | None = None
) -> GroupShapes:
    """Count what is irregular about the groups of a run, or of some of its rows (bool, shape (R,))."""
    use = first_pass(rows) & rows.grouped
    if among is not None:
        use &= among
    group = dense(rows.sample[use]) if use.any() else np.zeros(0, dtype=np.int64)
    unit = dense(group, trajectories(rows)[use]) if len(group) else group
    _, one = np.unique(unit, return_index=True)
    size = np.bincount(group[one])
    declared = rows.run.manifest.group_size
    typical = int(np.bincount(size).argmax()) if len(size) else 0
    reference = declared or typical
    values, counts = np.unique(size, return_counts=True)
    top = np.argsort(-counts, kind="stable")[:_SHOWN]
    lost = ~np.isfinite(rows.numpy("reward")[use])
    nameless = skips.lacks("groups of several prompts, prompts in several groups of a step", "prompt_id")
    timeless = skips.lacks("groups over several steps", "step")
    return GroupShapes(
        expected_size=reference,
        declared=declared is not None,
        sizes=[SizeCount(int(values[at]), int(counts[at])) for at in top],
        smaller=int((size < reference).sum()),
        larger=int((size > reference).sum()),
        singletons=int((size == 1).sum()),
        mixed_prompts=None if nameless else _several(group, rows.prompt[use]),
        several_steps=None if timeless else _several(group, rows.numpy("step")[use]),
        repeated_samples=_repeated(rows, use, group, skips),
        same_prompt_in_step=None if nameless or timeless else _same_prompt(samples),
        copies=_copies(rows, use, group, skips),
        unscorable=int(lost.sum()),
        touched_by_unscorable=len(np.unique(group[lost])),
        ungrouped=int((first_pass(rows) & ~rows.grouped).sum()),
    )


def _several(group: np.ndarray, value: np.ndarray) -> int:
    """Groups with more than one value; NaN is one too."""
    if not len(group):
        return 0
    pair = dense(group, np.unique(value, return_inverse=True)[1])
    _, first = np.unique(pair, return_index=True)
    return int((np.bincount(group[first]) > 1).sum())


def _repeated(rows: RunRows, use: np.ndarray, group: np.ndarray, skips: Skips) -> int | None:
    if skips.lacks("repeated samples", "sample_index"):
        return None
    index = rows.numpy("sample_index")[use]
    # The turns of a trajectory are rows of one sample.
    turn = (
        rows.run.responses(["turn"])["turn"].fill_null(0).to_numpy()[use] if rows.has("turn") else 0 * index
    )
    given = np.isfinite(index)
    if not given.any():
        return 0
    return int(given.sum()) - int(dense(group[given], index[given], turn[given]).max() + 1)


def _same_prompt(samples: Samples) -> int:
    known = (samples.prompt >= 0) & np.isfinite(samples.step)
    if not known.any():
        return 0
    shared = np.bincount(dense(samples.prompt[known], samples.step[known]))
    return int(shared[shared > 1].sum())


def _copies(rows: RunRows, use: np.ndarray, group: np.ndarray, skips: Skips) -> int | None:
    if skips.lacks("copied groups", NEEDS):
        return None
    text = text_codes(rows)
    assert text is not None
    reward = rows.numpy("reward")[use]
    said = dense(rows.prompt[use], text[use], np.where(np.isfinite(reward), reward, np.inf))
    order = np.lexsort((rows.numpy("sample_index")[use], group))
    ends = np.cumsum(np.bincount(group))[:-1]
    seen: set[bytes] = set()
    copies = 0
    for part in np.split(said[order], ends):
        if len(np.unique(part)) < LEAST_TEXTS:
            continue
        key = part.tobytes()
        copies += key in seen
        seen.add(key)
    return copies
