"""Statistics of the scorable rewards of each group or batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit.objectives.arrays import (
    Array,
    at_least,
    count_codes,
    group_max,
    group_sum,
    library,
    silent,
    tiny,
)

SLACK = 1e-9
"""Rounding of a sample count: a lone trajectory of k rows sums k times 1 / k, which can exceed 1."""


@dataclass(frozen=True)
class Pool:
    """Weighted moments and extremes of a value over groups; tensors of shape (groups,), float64."""

    index: Array
    """Group of each row, int64, shape (R,)."""
    value: Array
    """Pooled value of each row, shape (R,)."""
    weight: Array
    """Weight of each row, shape (R,); rows of weight 0 (unscorable, greedy) do not count."""
    count: Array
    mean: Array
    squares: Array
    """Sum of squared deviations from the mean."""
    low: Array
    high: Array

    @classmethod
    @silent
    def of(cls, value: Array, index: Array, weight: Array) -> Pool:
        """Pool ``value`` over ``index`` with ``weight``, tensors of shape (R,)."""
        xp, groups = library(value), count_codes(index)
        counted = weight > 0
        clean = xp.where(counted, value, 0.0)
        count = group_sum(weight, index, groups)
        mean = group_sum(weight * clean, index, groups) / at_least(count, tiny(count))
        residual = xp.where(counted, value - mean[index], 0.0)
        squares = group_sum(weight * residual * residual, index, groups)
        high = group_max(xp.where(counted, value, -math.inf), index, groups)
        low = -group_max(xp.where(counted, -value, -math.inf), index, groups)
        return cls(index, value, weight, count, mean, squares, low, high)

    @property
    def dead(self) -> Array:
        """bool, shape (groups,): no two different values; compared as max = min, never by the std."""
        return self.high <= self.low

    @silent
    def std(self, ddof: int) -> Array:
        """Standard deviation of each group with ``ddof`` degrees of freedom removed; inf if none is left."""
        xp = library(self.count)
        variance = xp.where(self.count > ddof + SLACK, self.squares / (self.count - ddof), math.inf)
        return xp.sqrt(variance)

    def rows(self, per_group: Array) -> Array:
        """Value of each row's group, shape (R,)."""
        return per_group[self.index]

    @silent
    def others(self) -> tuple[Array, Array, Array]:
        """Count, mean and sum of squared deviations of the *other* samples of a row's group, shape (R,).

        Where the others are all equal their squares are exactly 0, not what subtraction would leave.
        """
        xp = library(self.count)
        count, mean, squares = self.rows(self.count), self.rows(self.mean), self.rows(self.squares)
        rest = count - 1.0
        some = rest > SLACK
        shift = xp.where(self.weight > 0, self.value - mean, 0.0)
        safe = xp.where(some, rest, 1.0)
        other_mean = xp.where(some, mean - shift / safe, math.nan)
        other_squares = xp.where(some, squares - shift * shift * count / safe, 0.0)
        return rest, other_mean, xp.where(self._others_equal(), 0.0, at_least(other_squares, 0.0))

    def _others_equal(self) -> Array:
        unit = library(self.weight).where(self.weight > 0, self.weight, 0.0)
        groups = self.count.shape[0]
        at_high = self.value == self.rows(self.high)
        at_low = self.value == self.rows(self.low)
        highs = self.rows(group_sum(unit * at_high, self.index, groups))
        lows = self.rows(group_sum(unit * at_low, self.index, groups))
        two_valued = abs(highs + lows - self.rows(self.count)) < SLACK
        lone = (at_high & (abs(highs - 1.0) < SLACK)) | (at_low & (abs(lows - 1.0) < SLACK))
        return self.rows(self.dead) | (two_valued & lone)
