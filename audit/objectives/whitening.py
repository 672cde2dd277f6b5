"""Standardising advantages over a batch, by responses or by loss tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.objectives.parts import Whiten
from audit.objectives.pools import SLACK
from audit.ragged import group_sum


def whitening(sums: Tensor, index: Tensor, whiten: Whiten) -> tuple[Tensor, Tensor]:
    """Shift and factor that standardise the advantages of each response's batch: (A - shift) · factor.

    Parameters
    ----------
    sums : Tensor, shape (R, 3), float64
        What each response contributes, its loss tokens or itself: their count, their sum, and the sum of
        their squared deviations from the response's own mean.
    index : Tensor, shape (R,), int64
        Batch of each response.

    Returns
    -------
    shift, factor : Tensor, shape (R,), float64

    Notes
    -----
    verl 0.9.1 ``masked_whiten``: ddof 1, 1e-8 in the variance. OpenRLHF 0.11.2: ddof 0, variance >= 1e-8.
    """
    batches = int(index.max()) + 1 if index.numel() else 0
    count, total, within = (group_sum(sums[:, column], index, batches) for column in range(3))
    mean = total / count.clamp(min=torch.finfo(count.dtype).tiny)
    own = sums[:, 1] / sums[:, 0].clamp(min=torch.finfo(count.dtype).tiny)
    spread = within + group_sum(sums[:, 0] * (own - mean[index]).square(), index, batches)
    # What rounding of the mean leaves of a spread of 0 is not a spread.
    spread = torch.where(spread <= 1e-24 * count * mean.square(), 0.0, spread)
    variance = torch.where(count > whiten.ddof + SLACK, spread / (count - whiten.ddof), torch.nan)
    if whiten.epsilon_in == "variance":
        std = (variance + whiten.epsilon).sqrt()
    elif whiten.epsilon_in == "floor":
        std = variance.clamp(min=whiten.epsilon).sqrt()
    else:
        std = variance.sqrt() + whiten.epsilon
    factor = torch.where(std > 0, 1.0 / std, 1.0)
    shift = mean if whiten.centre else torch.zeros_like(mean)
    return shift[index], factor[index]
