"""Ragged token values over torch: one flat tensor and row offsets, no padding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Where the tokens of each response lie in a flat tensor.

    Parameters
    ----------
    offsets : Tensor, shape (R + 1,), int64
        Response i owns ``values[offsets[i]:offsets[i + 1]]``; offsets[0] is 0.
    """

    offsets: Tensor

    @classmethod
    def from_lengths(cls, lengths: Tensor) -> Layout:
        """Build from the token count of each response, shape (R,), int64."""
        start = torch.zeros(1, dtype=torch.int64, device=lengths.device)
        return cls(torch.cat([start, lengths.to(torch.int64).cumsum(0)]))

    @property
    def num_rows(self) -> int:
        """Number of responses R."""
        return int(self.offsets.shape[0]) - 1

    @cached_property
    def num_values(self) -> int:
        """Number of tokens N."""
        return int(self.offsets[-1])

    @cached_property
    def lengths(self) -> Tensor:
        """Tokens of each response, shape (R,), int64."""
        return self.offsets.diff()

    @cached_property
    def rows(self) -> Tensor:
        """Response of each token, shape (N,), int64."""
        index = torch.arange(self.num_rows, device=self.offsets.device)
        return index.repeat_interleave(self.lengths, output_size=self.num_values)

    def sum(self, values: Tensor) -> Tensor:
        """Sum of token values, shape (N,), over each response: shape (R,); 0 for an empty response."""
        if values.is_floating_point():
            # In the order of the tokens, as adding them at an index is, and in half the time.
            return torch.segment_reduce(values, "sum", offsets=self.offsets, initial=0.0)
        return group_sum(values, self.rows, self.num_rows)

    def spread(self, per_row: Tensor) -> Tensor:
        """Repeat one value per response, shape (R,), over its tokens: shape (N,)."""
        return per_row.repeat_interleave(self.lengths, output_size=self.num_values)


def group_sum(values: Tensor, index: Tensor, num_groups: int) -> Tensor:
    """Sum ``values``, shape (R,), over ``index``, shape (R,), int64 in [0, num_groups)."""
    total = torch.zeros(num_groups, dtype=values.dtype, device=values.device)
    return total.index_add(0, index, values)
