"""Solve for what is added to a reward, given the advantages that were made of the sum.

A centred advantage is linear in the reward. Where it is divided by something that a whole group (or batch)
shares, the advantages of that group point where its centred rewards do: what is left of the centred rewards
after their part along the advantages is taken off must vanish, and that is linear too, whatever the divisor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit.analyses.infer_problem import Problem

Base = Literal["group_mean", "leave_one_out", "none", "batch_mean"]
Over = Literal["group", "batch"] | None
SHAPES: tuple[tuple[Base, Over], ...] = (
    ("group_mean", None),
    ("group_mean", "group"),
    ("leave_one_out", None),
    ("none", None),
    ("batch_mean", None),
    ("batch_mean", "batch"),
    ("group_mean", "batch"),
    ("none", "batch"),
    ("none", "group"),
)
"""Baseline, and what shares a divisor. A leave-one-out advantage points where that of the mean does."""
SPARE = 12
"""Degrees of freedom that must be left over: fewer, and anything fits; heuristic."""
ALONG = 1e-3
"""Relative misfit of a solution up to which it is worth a look; heuristic."""


@dataclass(frozen=True)
class Solution:
    """Coefficients of the features, shape (K,), and how much of the rewards they leave unexplained."""

    coefficients: np.ndarray
    misfit: float
    """Relative; 0 exact, 1 nothing."""


@dataclass(frozen=True)
class Linear:
    """The rows of a problem that have all that is needed, in one shape; arrays of shape (N,)."""

    logged: np.ndarray
    code: np.ndarray | None
    """What the baseline is the mean of; None: no baseline."""
    weight: np.ndarray
    pool: np.ndarray | None
    """What shares a divisor."""
    others: bool
    """Leave-one-out."""

    def centred(self, values: np.ndarray) -> np.ndarray:
        """Values minus their baseline, shape (N,) or (N, K)."""
        if self.code is None:
            return values
        made = np.asarray(values - self._mean(values))
        if not self.others:
            return made
        count = np.bincount(self.code, weights=self.weight)[self.code]
        return np.asarray(made * _column(np.where(count > 1, count / np.maximum(count - 1, 1), 0.0), made))

    def _mean(self, values: np.ndarray) -> np.ndarray:
        assert self.code is not None
        total = np.maximum(np.bincount(self.code, weights=self.weight), 1e-300)
        if values.ndim == 1:
            mean = np.bincount(self.code, weights=self.weight * values) / total
            return np.asarray(mean[self.code])
        return np.asarray(np.column_stack([self._mean(column) for column in values.T]))

    def across(self, values: np.ndarray) -> np.ndarray:
        """What is left of values, shape (N,) or (N, K), beside the direction of the advantages."""
        assert self.pool is not None
        power = np.bincount(self.pool, weights=self.logged**2)
        if values.ndim == 1:
            along = np.bincount(self.pool, weights=self.logged * values) / np.maximum(power, 1e-300)
            left = values - along[self.pool] * self.logged
            return np.asarray(np.where(power[self.pool] > 0, left, 0.0))
        return np.column_stack([self.across(column) for column in values.T])

    @property
    def freedom(self) -> int:
        """Equations beyond one for each divisor and each baseline."""
        codes = [code for code in (self.pool, self.code) if code is not None]
        live = self.logged != 0
        return int(live.sum()) - sum(len(np.unique(code[live])) for code in codes)


def linear(problem: Problem, base: Base, over: Over, finite: np.ndarray) -> Linear | None:
    """Set up a shape over the rows where ``finite``, bool of shape (R,); None where nothing can be solved."""
    use = problem.use & finite
    groups = {"group_mean": problem.group, "leave_one_out": problem.group, "batch_mean": problem.batch}
    pools = {"group": problem.group, "batch": problem.batch}
    weight = problem.responses.sample_weight
    made = Linear(
        logged=problem.logged[use],
        code=groups[base][use] if base != "none" else None,
        weight=np.ones(int(use.sum())) if weight is None else np.asarray(weight)[use],
        pool=None if over is None else pools[over][use],
        others=base == "leave_one_out",
    )
    return made if made.freedom >= SPARE else None


class Added:
    """What one term must be multiplied by so that, added to the reward, it makes the advantages."""

    def __init__(self, shape: Linear, reward: np.ndarray) -> None:
        self._shape = shape
        self._target = shape.centred(reward)
        scaled = shape.pool is not None
        self._missing = -shape.across(self._target) if scaled else shape.logged - self._target
        self._whole = shape.logged != 0
        self.without = _norm(self._missing) / self._size(self._target)
        """Relative misfit of the reward alone."""

    def _size(self, centred: np.ndarray) -> float:
        of = self._shape.logged if self._shape.pool is None else centred[self._whole]
        return max(_norm(of), 1e-300)

    def solved(self, values: np.ndarray) -> Solution | None:
        """Least squares for a term, shape (N,); None where it makes no difference."""
        centred = self._shape.centred(values)
        column = centred if self._shape.pool is None else self._shape.across(centred)
        power = float(np.sum(column * column))
        if not np.isfinite(power) or power < 1e-24:
            return None
        coefficient = float(np.sum(column * self._missing)) / power
        left = _norm(self._missing - coefficient * column)
        return Solution(np.array([coefficient]), left / self._size(self._target + coefficient * centred))


def mixed(shape: Linear, parts: np.ndarray) -> Solution | None:
    """Weights w for which ``parts @ w`` makes the advantages; up to a factor where a divisor is shared."""
    columns = shape.centred(parts)
    if shape.pool is None:
        weights = least_squares(columns, shape.logged)
        if weights is None:
            return None
        return Solution(weights, _norm(shape.logged - columns @ weights) / max(_norm(shape.logged), 1e-300))
    whole = shape.logged != 0
    power, basis = np.linalg.eigh(columns[whole].T @ columns[whole])
    kept = power > 1e-10 * max(float(power.max(initial=0.0)), 1e-300)
    if not kept.any():
        return None
    # Weights of unit size among those that make any difference at all.
    basis = basis[:, kept] / np.sqrt(power[kept])
    across = shape.across(columns @ basis)
    _, sizes, directions = np.linalg.svd(across, full_matrices=False)
    weights = basis @ directions[-1]
    if float(np.sum(shape.logged * (columns @ weights))) < 0.0:
        weights = -weights
    return Solution(weights, float(sizes[-1]))


def least_squares(columns: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """Coefficients, shape (K,), for columns of shape (N, K); None where they say nothing."""
    sizes = np.linalg.norm(columns, axis=0)
    if not np.isfinite(sizes).all() or not np.isfinite(target).all() or (sizes < 1e-12).all():
        return None
    scale = np.where(sizes > 0, sizes, 1.0)
    return np.asarray(np.linalg.lstsq(columns / scale, target, rcond=1e-9)[0] / scale)


def _norm(values: np.ndarray) -> float:
    # Not numpy.linalg.norm: its threads wait for each other on vectors as short as these.
    return float(np.sqrt(np.sum(values * values)))


def _column(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return values if like.ndim == 1 else values[:, None]


def snapped(value: float, tolerance: float = 5e-5) -> float:
    """The number of fewest digits that is as good as ``value``, to a relative tolerance."""
    for digits in range(1, 7):
        near = float(f"{value:.{digits}g}")
        if abs(near - value) <= tolerance * abs(value):
            return near
    return value
