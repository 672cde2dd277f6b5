"""A seeded sample of the steps of a long run, for what has to look at every token."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from audit.facts.rows import RunRows
from audit.facts.step_rows import rows_in_memory

SEED = 0


class SampleSize(msgspec.Struct, frozen=True):
    """How much of a run was looked at."""

    steps: int
    of_steps: int
    tokens: int
    of_tokens: int


class StepSample(NamedTuple):
    """Some steps of a run."""

    rows: RunRows
    """R rows: those of the steps, and those of others that share a group, an update or a batch with them."""
    at: np.ndarray
    """Their places in the whole run, int64, shape (R,)."""
    here: np.ndarray
    """bool, shape (R,): the row is of one of the steps."""
    size: SampleSize


def step_sample(rows: RunRows, use: np.ndarray, most: int) -> StepSample | None:
    """Read steps with about ``most`` tokens, one at least; None where the run has no more than that.

    Only steps with a row of ``use``, bool of shape (R,), are counted and drawn.

    The run is cut into stretches of equally many steps, and one step of each is drawn (seed :data:`SEED`), so
    that early and late ones are there alike.

    Raises
    ------
    BadLog
        A row has no step, or a file is damaged or was changed.
    """
    assert rows.facts is not None
    tokens = rows.facts["tokens"]
    if int(tokens.sum()) <= most:
        return None
    steps = np.unique(rows.step[use])
    total = int(tokens[np.isin(rows.step, steps)].sum())
    if total <= most:
        return None
    count = max(1, most * len(steps) // total)
    edges = np.linspace(0, len(steps), count + 1).astype(int)
    drawn = steps[np.random.default_rng(SEED).integers(edges[:-1], edges[1:])]
    here = np.isin(rows.step, drawn)
    some = rows_in_memory(rows, here, f"{count} sampled steps")
    size = SampleSize(count, len(steps), int(tokens[here].sum()), total)
    return StepSample(some.rows, some.at, here[some.at], size)
