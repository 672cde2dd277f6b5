"""Were advantages formed over other sets of rows than the groups that the log names?

Whatever the reward and the scale, advantages with the baseline of a set sum to 0 over that set. Where they
do so over every batch but not over the groups, the sets were others: the rows were regrouped between reward
and advantage. Which rows made a set is not in the log; for rewards of two values it still shows whether the
advantages are those of sets of G rows, since only G - 1 pairs of values can occur, in fixed proportions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from audit.analyses.infer_candidate import Candidate, candidate_of
from audit.analyses.infer_grid import EPSILONS
from audit.analyses.infer_problem import EXACT, Problem
from audit.facts.rows import dense
from audit.objectives.objective import Baseline, Objective, Scale

BALANCED = 1e-4
"""|Σ A| / Σ |A| up to which advantages sum to 0: a hundred float32 roundings; heuristic."""


class Centring(msgspec.Struct, frozen=True):
    """Over which sets of rows the advantages of a run sum to 0."""

    groups: int
    """Groups of several rows with an advantage that is not 0."""
    group_share: float
    """Share of them over which the advantages sum to 0."""
    batches: int
    batch_share: float
    several: float
    """Share of the pairs (batch, reward) of several rows that hold several advantages; with a baseline and a
    scale of the whole batch, equal rewards have equal advantages."""


def centring(problem: Problem) -> Centring:
    """Count the groups and the batches over which the advantages sum to 0."""
    use = problem.use
    logged = problem.logged[use]
    groups, group_share = _balanced(problem.group[use], logged)
    batches, batch_share = _balanced(problem.batch[use], logged)
    same = dense(problem.batch[use], problem.reward[use]) if use.any() else np.zeros(0, dtype=np.int64)
    several = _spread(same, logged)
    return Centring(groups, group_share, batches, batch_share, several)


def _balanced(code: np.ndarray, logged: np.ndarray) -> tuple[int, float]:
    total, size = np.bincount(code, weights=logged), np.bincount(code, weights=np.abs(logged))
    counted = (np.bincount(code) > 1) & (size > 0)
    share = float(np.mean(np.abs(total[counted]) <= BALANCED * size[counted])) if counted.any() else 0.0
    return int(counted.sum()), share


def _spread(code: np.ndarray, logged: np.ndarray) -> float:
    if not len(code):
        return 0.0
    order = np.lexsort((logged, code))
    sizes = np.bincount(code)
    ends = np.cumsum(sizes)
    low, high = logged[order][ends - sizes], logged[order][ends - 1]
    counted = sizes > 1
    apart = high - low > BALANCED * np.maximum(np.abs(high), np.abs(low))
    return float(np.mean(apart[counted])) if counted.any() else 0.0


@dataclass(frozen=True)
class _Table:
    """Advantages that a set of G rows can give to its lower and its higher reward."""

    objective: Objective
    values: np.ndarray
    """Shape (2, G - 1); column k - 1: k of the G rows have the higher reward."""


def other_sets(problem: Problem, size: int, passes: np.ndarray) -> Iterator[Candidate]:
    """Candidates of sets of rows that the log does not name; for rewards of two values.

    Parameters
    ----------
    size : int
        Of a group.
    passes : int64, shape (R,)
        The batch of a row whatever its inner pass.
    """
    for width in dict.fromkeys((size, 2 * size, size // 2)):
        yield from _sets(problem, width, problem.batch, "of a batch")
    repeats = round(len(np.unique(problem.batch)) / max(len(np.unique(passes)), 1))
    if repeats > 1:
        yield from _sets(problem, repeats * size, passes, f"of a batch in all of its {repeats} passes")


def _sets(problem: Problem, size: int, batch: np.ndarray, where: str) -> Iterator[Candidate]:
    use = problem.use
    reward, logged = problem.reward[use], problem.logged[use]
    held = np.unique(reward)
    if len(held) != 2 or size < 2:
        return
    high = (reward == held[1]).astype(np.int64)
    for table in _tables(float(held[0]), float(held[1]), size):
        residual, k = _nearest(table, high, logged)
        if residual < EXACT and _in_proportion(batch[use], high, k, size):
            traits = {"grouping": f"sets of {size} rows {where} that the log does not name"}
            yield candidate_of(table.objective, residual, **(problem.traits | traits))


def _tables(low: float, high: float, size: int) -> Iterator[_Table]:
    share = np.arange(1, size) / size
    mean = low + (high - low) * share
    centred = np.stack([low - mean, high - mean])
    bases = (("group_mean", 1.0), ("leave_one_out", size / (size - 1)))
    for kind, factor in bases:
        baseline = Baseline(kind=kind)  # type: ignore[arg-type]
        yield _Table(Objective(baseline=baseline), factor * centred)
        ddofs: tuple[int, ...] = (0, 1)
        for ddof, epsilon in itertools.product(ddofs, EPSILONS):
            std = (high - low) * np.sqrt(share * (1 - share) * size / (size - ddof))
            scale = Scale(kind="group_std", ddof=ddof, epsilon=epsilon)  # type: ignore[arg-type]
            yield _Table(Objective(baseline=baseline, scale=scale), factor * centred / (std + epsilon))


def _nearest(table: _Table, high: np.ndarray, logged: np.ndarray) -> tuple[float, np.ndarray]:
    """Relative misfit to the nearest value that can occur, and its k, shape (N,); 0 for an advantage of 0."""
    k = np.zeros(len(logged), dtype=np.int64)
    left = np.array(logged)
    for side in (0, 1):
        values = table.values[side]
        order = np.argsort(values)
        mine = np.flatnonzero((high == side) & (logged != 0))
        middle = (values[order][1:] + values[order][:-1]) / 2
        near = order[np.searchsorted(middle, logged[mine])]
        k[mine] = near + 1
        left[mine] = logged[mine] - values[near]
    return float(np.sqrt(np.mean(left**2)) / np.sqrt(np.mean(logged**2))), k


def _in_proportion(batch: np.ndarray, high: np.ndarray, k: np.ndarray, size: int) -> bool:
    """Whether every batch holds whole sets: for each k, k rows of the higher reward to G - k of the lower."""
    width = size + 1
    _, batch = np.unique(batch, return_inverse=True)
    count = int(batch.max(initial=-1)) + 1
    shape = (count, width)
    ups = np.bincount(batch * width + k, weights=high, minlength=count * width).reshape(shape)
    all_ = np.bincount(batch * width + k, minlength=count * width).reshape(shape)
    ups, downs = ups[:, 1:size], (all_ - ups)[:, 1:size]
    ks = np.arange(1, size)
    sets = ups / ks
    whole = (ups % ks == 0) & (downs == sets * (size - ks))
    return bool(whole.all())
