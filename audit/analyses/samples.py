"""What groups are made of: scored samples of the first inner pass, a response each or a whole trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from audit.analyses.outcomes import correctness, first_pass
from audit.facts.rows import RunRows, dense
from audit.logs.arrays import codes_of, valid

RELATIVE = "reward above or below the group's mean"
"""How :func:`~.outcomes.correctness` splits rewards that have no right and wrong of their own."""


@dataclass(frozen=True)
class Samples:
    """S samples of N groups, each group with one at least."""

    reward: np.ndarray
    """Float64, shape (S,); of a trajectory the mean over its rows."""
    group: np.ndarray
    """Dense code of the group, int64, shape (S,)."""
    correct: np.ndarray | None
    """1, 0 or NaN, shape (S,); None where rewards are neither right nor wrong."""
    correct_is: str
    """How that was decided."""
    tokens: np.ndarray
    """Tokens of the sample, float64, shape (S,); NaN where not known."""
    of_row: np.ndarray
    """Sample of each row of the run, int64, shape (R,); -1 for rows that are none."""
    group_of_row: np.ndarray
    """Group of each row of the run, later inner passes included, int64, shape (R,); -1 for rows of none."""
    prompt: np.ndarray
    """Dense code of the prompt of each group, int64, shape (N,); -1 where prompt_id is null."""
    step: np.ndarray
    """First step of each group, float64, shape (N,); NaN where not logged."""

    @property
    def num_groups(self) -> int:
        """Number of groups N."""
        return len(self.prompt)

    @cached_property
    def size(self) -> np.ndarray:
        """Samples of each group, int64, shape (N,)."""
        return np.bincount(self.group, minlength=self.num_groups)

    @cached_property
    def alike(self) -> np.ndarray:
        """Groups whose rewards are all equal, bool, shape (N,)."""
        low, high = spans(self.reward, self.group, self.num_groups)
        return np.asarray(high <= low)

    @cached_property
    def cluster(self) -> np.ndarray:
        """Cluster of each group for intervals, int64, shape (N,): its prompt; all unknown ones are one."""
        return dense(self.prompt)

    @property
    def typical_size(self) -> int:
        """The most frequent group size; 0 without groups."""
        return int(np.bincount(self.size).argmax()) if self.num_groups else 0

    def per_group(self, values: np.ndarray) -> np.ndarray:
        """Sum values of shape (S,) over each group: shape (N,)."""
        return np.bincount(self.group, weights=values, minlength=self.num_groups)


def samples_of(rows: RunRows, among: np.ndarray | None = None) -> Samples:
    """Collect the samples whose rewards make the group statistics; greedy and unscorable rows are none.

    Parameters
    ----------
    among : ndarray of bool, shape (R,), optional
        Rows that may be samples; all without it.
    """
    reward = rows.numpy("reward")
    used = first_pass(rows) & rows.grouped & np.isfinite(reward)
    if among is not None:
        used &= among
    unit = dense(rows.sample[used], trajectories(rows)[used])
    count = int(unit.max(initial=-1)) + 1
    of_row = np.full(rows.num_rows, -1, dtype=np.int64)
    of_row[used] = unit
    first = np.zeros(count, dtype=np.int64)
    at = np.flatnonzero(used)
    first[unit[::-1]] = at[::-1]
    group = dense(rows.sample[first]) if count else np.zeros(0, dtype=np.int64)
    groups = int(group.max(initial=-1)) + 1
    prompt, step = np.zeros(groups, dtype=np.int64), np.full(groups, np.inf)
    known = valid(rows.table["prompt_id"])
    prompt[group[::-1]] = np.where(known, rows.prompt, -1)[first[::-1]]
    given = rows.numpy("step")[first]
    np.minimum.at(step, group, np.where(np.isnan(given), np.inf, given))
    side, how = correctness(rows)
    rows_of = np.bincount(unit, minlength=count)
    return Samples(
        reward=np.bincount(unit, weights=reward[used], minlength=count) / np.maximum(rows_of, 1),
        group=group,
        correct=None if how == RELATIVE else side[first],
        correct_is=how,
        tokens=np.bincount(unit, weights=rows.length[used], minlength=count),
        of_row=of_row,
        group_of_row=_group_of_row(rows, first, group),
        prompt=prompt,
        step=np.where(np.isinf(step), np.nan, step),
    )


def _group_of_row(rows: RunRows, first: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Carry the groups of the samples, whose first rows are given, over to every row with their group_id."""
    column = rows.table["group_id"].combine_chunks().dictionary_encode()
    codes = codes_of(column)
    group_of: np.ndarray = np.full(int(codes.max(initial=-1)) + 2, -1, dtype=np.int64)
    group_of[codes[first]] = group
    # A row without group_id reads the last entry, which no group owns.
    return np.asarray(group_of[codes])


def trajectories(rows: RunRows) -> np.ndarray:
    """Code of what is one sample of a group, int64, shape (R,): the trajectory, else the row itself."""
    alone = np.arange(rows.num_rows)
    if not rows.has("trajectory_id"):
        return alone
    column = rows.table["trajectory_id"].combine_chunks().dictionary_encode()
    codes = codes_of(column)
    return np.where(codes >= 0, codes, len(codes) + alone)


def spans(values: np.ndarray, code: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value under each of ``count`` codes; inf and -inf under a code without any."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, code, values)
    np.maximum.at(high, code, values)
    return low, high
