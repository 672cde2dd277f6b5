"""Statistics of the scorable rewards of each group or batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from audit.ragged import group_sum

SLACK = 1e-9
"""Rounding of a sample count: a lone trajectory of k rows sums k times 1 / k, which can exceed 1."""


@dataclass(frozen=True)
class Pool:
    """Weighted moments and extremes of a value over groups; tensors of shape (groups,), float64."""

    index: Tensor
    """Group of each row, int64, shape (R,)."""
    value: Tensor
    """Pooled value of each row, shape (R,)."""
    weight: Tensor
    """Weight of each row, shape (R,); rows of weight 0 (unscorable, greedy) do not count."""
    count: Tensor
    mean: Tensor
    squares: Tensor
    """Sum of squared deviations from the mean."""
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, value: Tensor, index: Tensor, weight: Tensor) -> Pool:
        """Pool ``value`` over ``index`` with ``weight``, tensors of shape (R,)."""
        groups = int(index.max()) + 1 if index.numel() else 0
        counted = weight > 0
        clean = torch.where(counted, value, 0.0)
        count = group_sum(weight, index, groups)
        mean = group_sum(weight * clean, index, groups) / count.clamp(min=torch.finfo(count.dtype).tiny)
        residual = torch.where(counted, value - mean[index], 0.0)
        squares = group_sum(weight * residual * residual, index, groups)
        high = torch.full_like(mean, -torch.inf)
        high = high.scatter_reduce(0, index, torch.where(counted, value, -torch.inf), "amax")
        low = torch.full_like(mean, torch.inf)
        low = low.scatter_reduce(0, index, torch.where(counted, value, torch.inf), "amin")
        return cls(index, value, weight, count, mean, squares, low, high)

    @property
    def dead(self) -> Tensor:
        """bool, shape (groups,): no two different values; compared as max = min, never by the std."""
        return self.high <= self.low

    def std(self, ddof: int) -> Tensor:
        """Standard deviation of each group with ``ddof`` degrees of freedom removed; inf if none is left."""
        return torch.where(self.count > ddof + SLACK, self.squares / (self.count - ddof), torch.inf).sqrt()

    def rows(self, per_group: Tensor) -> Tensor:
        """Value of each row's group, shape (R,)."""
        return per_group[self.index]

    def others(self) -> tuple[Tensor, Tensor, Tensor]:
        """Count, mean and sum of squared deviations of the *other* samples of a row's group, shape (R,).

        Where the others are all equal their squares are exactly 0, not what subtraction would leave.
        """
        count, mean, squares = self.rows(self.count), self.rows(self.mean), self.rows(self.squares)
        rest = count - 1.0
        some = rest > SLACK
        shift = torch.where(self.weight > 0, self.value - mean, 0.0)
        safe = torch.where(some, rest, 1.0)
        other_mean = torch.where(some, mean - shift / safe, torch.nan)
        other_squares = torch.where(some, squares - shift.square() * count / safe, 0.0).clamp(min=0.0)
        return rest, other_mean, torch.where(self._others_equal(), 0.0, other_squares)

    def _others_equal(self) -> Tensor:
        unit = torch.where(self.weight > 0, self.weight, 0.0)
        groups = self.count.numel()
        at_high = self.value == self.rows(self.high)
        at_low = self.value == self.rows(self.low)
        highs = self.rows(group_sum(unit * at_high, self.index, groups))
        lows = self.rows(group_sum(unit * at_low, self.index, groups))
        two_valued = (highs + lows - self.rows(self.count)).abs() < SLACK
        lone = (at_high & ((highs - 1.0).abs() < SLACK)) | (at_low & ((lows - 1.0).abs() < SLACK))
        return self.rows(self.dead) | (two_valued & lone)
