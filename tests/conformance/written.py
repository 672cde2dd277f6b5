"""Losses written down from what was read of a framework, term by term, and differentiated by autograd.

Nothing of ``audit`` is used here, and no derivative is written by hand.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from conformance.batch import Batch
from conformance.case import Answer, gradient

Loss = Callable[[Batch, Tensor, Tensor], Tensor]
"""From batch, log-probs (R, T) and advantages (R, 1) or (R, T) to the scalar that is minimised."""


def answer(advantages: Callable[[Batch], Tensor], loss: Loss) -> Callable[[Batch], Answer]:
    """Advantages and the gradient of the loss on them."""

    def of(batch: Batch) -> Answer:
        made = advantages(batch)
        wide = made[:, None] if made.dim() == 1 else made
        return Answer(made, gradient(batch, lambda theta: loss(batch, theta, wide)))

    return of


def groups(batch: Batch) -> list[list[int]]:
    """Rows of each prompt."""
    return [(batch.group == g).nonzero().flatten().tolist() for g in range(batch.groups)]


def standardised(reward: Tensor, batch: Batch, *, ddof: int | None, epsilon: float = 0.0) -> Tensor:
    """(r - mean) / (std + epsilon) within each group; without ``ddof`` only centred."""
    made = torch.zeros_like(reward)
    for rows in groups(batch):
        own = reward[rows]
        centred = own - own.mean()
        made[rows] = centred if ddof is None else centred / (own.std(correction=ddof) + epsilon)
    return made


def without_self(batch: Batch, *, divide: bool) -> Tensor:
    """NeMo-RL: mean and std (ddof 1, + 1e-6) of the other responses; not divided where these agree."""
    made = torch.zeros_like(batch.reward)
    for rows in groups(batch):
        for i in rows:
            others = batch.reward[[j for j in rows if j != i]]
            made[i] = batch.reward[i] - others.mean()
            if divide and others.max() > others.min():
                made[i] = made[i] / (others.std(correction=1) + 1e-6)
    return made


def whitened(values: Tensor, mask: Tensor) -> Tensor:
    """Zero mean and unit variance over loss tokens: population variance, at least 1e-8."""
    mean = (values * mask).sum() / mask.sum()
    variance = ((values - mean).square() * mask).sum() / mask.sum()
    return (values - mean) / variance.clamp(min=1e-8).sqrt()


def log_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the loss tokens of each response, (R, 1)."""
    return (values * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)


def clipped(ratio: Tensor, advantage: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """PPO's loss per token."""
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)
    if dual is not None:
        gain = torch.where(advantage < 0, torch.maximum(gain, dual * advantage), gain)
    return -gain


def bounded(ratio: Tensor, advantage: Tensor, theta: Tensor, low: float | None, high: float) -> Tensor:
    """CISPO's loss per token; bounds of the ratio itself."""
    return -ratio.detach().clamp(low, high) * advantage * theta


def k3(theta: Tensor, ref: Tensor, inside: float | None = None, outside: float | None = None) -> Tensor:
    """exp(log ratio) - log ratio - 1 of reference to policy, with clamps of log ratio and value."""
    log = ref - theta if inside is None else (ref - theta).clamp(-inside, inside)
    value = log.exp() - log - 1
    return value if outside is None else value.clamp(-outside, outside)


def by_token(values: Tensor, mask: Tensor, epsilon: float = 0.0) -> Tensor:
    """Mean over all loss tokens."""
    return (values * mask).sum() / (mask.sum() + epsilon)


def by_row(values: Tensor, mask: Tensor, epsilon: float = 0.0) -> Tensor:
    """Mean of the row means."""
    return ((values * mask).sum(1) / (mask.sum(1) + epsilon)).mean()
