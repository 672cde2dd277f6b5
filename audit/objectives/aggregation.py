"""From per-token losses to one number: the coefficient nu that multiplies every token of a response."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.errors import BadObjective, MissingColumn
from audit.objectives.batch import Responses
from audit.objectives.objective import Aggregation
from audit.ragged import group_sum


def aggregation_coefficients(
    responses: Responses, aggregation: Aggregation, loss_tokens: Tensor, kept: Tensor
) -> Tensor:
    """Coefficient nu of each token of a response.

    Parameters
    ----------
    loss_tokens : Tensor, shape (R,), int64
        Tokens that take loss after masking.
    kept : Tensor, shape (R,), bool
        Rows that enter the loss; the others count nowhere.

    Returns
    -------
    Tensor, shape (R,), float64
        0 for rows that are not kept.

    Raises
    ------
    MissingColumn
        scope ``micro_batch`` on a log without micro_batch.
    BadObjective
        A ``-norm`` kind without its constant.

    Notes
    -----
    Rows without loss tokens count in B, as in TRL 1.16 and verl 0.9; token counts are clamped at 1 as there.
    TRL's ``dapo`` (grpo_trainer.py 1.16): N is the loss tokens of the generation batch times
    accumulation / steps_per_generation, which is the share of its rows that one update consumes.
    """
    kind = aggregation.kind
    rows = kept.to(torch.float64)
    tokens = torch.where(kept, loss_tokens, 0).to(torch.float64)
    constant = 1.0
    if kind.endswith("-norm"):
        if aggregation.constant is None:
            msg = f"aggregation '{kind}' needs its constant, the generation budget: set aggregation.constant."
            raise BadObjective(msg)
        constant = aggregation.constant

    if aggregation.scope == "micro_batch":
        if responses.micro_batch is None:
            raise MissingColumn.needed_for(
                "micro_batch", "aggregation over micro-batches", hint="Or set aggregation.scope=update."
            )
        scope, slices = responses.micro_batch, _micro_batches_per_update(responses, kept)
    else:
        scope, slices = responses.update, torch.ones_like(rows)

    if kind in ("token-sum", "token-sum-norm"):
        nu = torch.full_like(rows, 1.0 / constant)
    elif kind == "token-mean":
        nu = 1.0 / _scope_tokens(responses, aggregation, tokens, rows, scope)
    else:
        nu = 1.0 / (_total(rows, scope).clamp(min=1.0) * constant)
        if kind == "seq-mean-token-mean":
            nu = nu / tokens.clamp(min=1.0)
    return torch.where(kept, nu / slices, 0.0)


def _scope_tokens(
    responses: Responses, aggregation: Aggregation, tokens: Tensor, rows: Tensor, scope: Tensor
) -> Tensor:
    if aggregation.scope != "generation_batch":
        return _total(tokens, scope).clamp(min=1.0)
    share = _total(rows, responses.update) / _total(rows, responses.generation_batch).clamp(min=1.0)
    return _total(tokens, responses.generation_batch).clamp(min=1.0) * share


def _total(values: Tensor, index: Tensor) -> Tensor:
    return group_sum(values, index, int(index.max()) + 1 if index.numel() else 0)[index]


def _micro_batches_per_update(responses: Responses, kept: Tensor) -> Tensor:
    assert responses.micro_batch is not None
    pairs = torch.unique(torch.stack([responses.update, responses.micro_batch])[:, kept], dim=1)
    updates = int(responses.update.max()) + 1 if responses.num_rows else 0
    counts = torch.bincount(pairs[0], minlength=updates)
    return counts[responses.update].to(torch.float64)
