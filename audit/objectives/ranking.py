"""Ranks of loss tokens within the batch that one step of the optimiser accumulates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from audit.objectives.batch import Tokens


def loss_tokens_by_batch(tokens: Tokens, batch: Tensor) -> Iterator[Tensor]:
    """Yield the places of the loss tokens of each batch that has some, int64, ascending.

    Parameters
    ----------
    batch : Tensor, shape (R,), int64
        Batch of each response; the rows of one need not follow each other.
    """
    import torch

    places = tokens.mask.nonzero().flatten()
    code = tokens.layout.spread(batch)[places]
    if not bool((batch.diff() >= 0).all()):
        code, order = code.sort(stable=True)
        places = places[order]
    sizes = torch.unique_consecutive(code, return_counts=True)[1].tolist()
    yield from torch.split(places, sizes)


def highest(values: Tensor, count: int) -> Tensor:
    """Choose the ``count`` greatest of ``values``, shape (n,), of equal ones the first; bool, shape (n,).

    NaN counts as +inf. 1 <= count <= n.
    """
    values = values.nan_to_num(float("inf"), float("inf"), float("-inf"))
    least = values.kthvalue(len(values) - count + 1).values
    chosen = values > least
    tied = (values == least).nonzero().flatten()
    chosen[tied[: count - int(chosen.sum())]] = True
    return chosen


def quantile(values: Tensor, share: float) -> Tensor:
    """Quantile of ``values``, shape (n,), n >= 1, between two order statistics; NaN where one is NaN.

    The number of ``torch.quantile``, which sorts all values and takes 16 million at most.
    """
    if bool(values.isnan().any()):
        return values.new_full((), float("nan"))
    rank = share * (len(values) - 1)
    below = int(rank)
    lower = values.kthvalue(below + 1).values
    if rank == below:
        return lower
    return lower.lerp(values.kthvalue(below + 2).values, rank - below)
