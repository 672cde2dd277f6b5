"""Groups of responses that share a baseline: how many, how large, how many without signal."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.outcomes import first_pass
from audit.analyses.samples import spans, trajectories
from audit.facts.rows import RunRows, dense
from audit.stats import Estimate, ratio_of_sums


class Groups(msgspec.Struct, frozen=True):
    """Groups of one run; arrays of shape (groups,), in the order of the dense group code."""

    size: np.ndarray
    """Scorable, trained samples, int64; the rows of a trajectory are one."""
    dead: np.ndarray
    """bool; all rewards equal (max = min), so the group carries no signal."""
    prompt: np.ndarray
    """Dense prompt code, int64."""

    @property
    def typical_size(self) -> int:
        """The most frequent size of the groups that have any scorable response; 0 where none has."""
        sizes = self.size[self.size > 0]
        return int(np.bincount(sizes).argmax()) if len(sizes) else 0


def groups_of(rows: RunRows) -> Groups:
    """Group the responses of the first inner pass by group_id, so that no group counts twice."""
    reward = rows.numpy("reward")
    used = first_pass(rows) & rows.grouped & np.isfinite(reward)
    count = int(rows.sample.max(initial=-1)) + 1
    low, high = spans(reward[used], rows.sample[used], count)
    prompt = np.zeros(count, dtype=np.int64)
    prompt[rows.sample] = rows.prompt
    _, one = np.unique(dense(rows.sample[used], trajectories(rows)[used]), return_index=True)
    return Groups(size=np.bincount(rows.sample[used][one], minlength=count), dead=high <= low, prompt=prompt)


def zero_signal_share(rows: RunRows) -> Estimate:
    """Share of groups whose rewards are all equal, with an interval clustered by prompt; n counts groups."""
    groups = groups_of(rows)
    some = groups.size > 0
    return ratio_of_sums(
        groups.dead[some].astype(float), np.ones(int(some.sum())), groups.prompt[some], int(some.sum())
    )
