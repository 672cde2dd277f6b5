"""Which loss tokens have the highest entropy of their batch."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.errors import MissingColumn
from audit.objectives.batch import Tokens
from audit.objectives.ranking import loss_tokens_by_batch, quantile


def high_entropy(tokens: Tokens, batch: Tensor, share: float) -> Tensor:
    """1.0 where the token is among the ``share`` of highest entropy, else 0.0; shape (N,), float64.

    Parameters
    ----------
    batch : Tensor, shape (R,), int64
        Micro-batch (else update) of each response; the threshold is its quantile 1 - share.

    Raises
    ------
    MissingColumn
        Entropies were not logged.

    Notes
    -----
    TRL 1.16 grpo_trainer.py ``get_high_entropy_mask``: tokens at the threshold are kept.
    """
    if tokens.entropy is None:
        raise MissingColumn.needed_for("entropy", "keeping the tokens of highest entropy")
    kept = torch.zeros_like(tokens.mask)
    for inside in loss_tokens_by_batch(tokens, batch):
        entropy = tokens.entropy[inside]
        kept[inside] = entropy >= quantile(entropy, 1.0 - share)
    return kept.to(torch.float64)
