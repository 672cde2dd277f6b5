"""From per-token losses to one number: the coefficient nu that multiplies every token of a response."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.errors import BadObjective, MissingColumn
from audit.objectives.batch import Responses
from audit.objectives.parts import Aggregation
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
    Token counts are clamped at 1, as in TRL 1.16 and verl 0.9, and so is a constant batch without tokens.
    TRL's ``dapo`` (grpo_trainer.py 1.16): N is the loss tokens of the generation batch times
    accumulation / steps_per_generation, which is the share of its rows that one update consumes.
    """
    kind = aggregation.kind
    tokens = torch.where(kept, loss_tokens, 0).to(torch.float64)
    counted = kept if aggregation.rows == "all" else kept & (loss_tokens > 0)
    rows = counted.to(torch.float64)
    if aggregation.scope == "micro_batch":
        if responses.micro_batch is None:
            raise MissingColumn.needed_for(
                "micro_batch", "aggregation over micro-batches", hint="Or set aggregation.scope=update."
            )
        scope, slices = responses.micro_batch, _micro_batches_per_update(responses, kept)
    else:
        scope, slices = responses.update, torch.ones_like(rows)

    constant = _constant(responses, aggregation, scope, kept)
    if kind in ("token-sum", "token-sum-norm"):
        nu = 1.0 / constant
    elif kind == "token-mean":
        nu = 1.0 / _scope_tokens(responses, aggregation, tokens, kept, scope)
    elif kind == "prompt-mean-token-mean":
        prompt, prompts = _prompts_of(scope, responses.group, kept)
        nu = 1.0 / (prompts * (_total(tokens, prompt).clamp(min=1.0) + aggregation.epsilon))
    else:
        nu = 1.0 / (_total(rows, scope).clamp(min=1.0) * constant)
        if kind == "seq-mean-token-mean":
            nu = nu / (tokens.clamp(min=1.0) + aggregation.epsilon)
    return torch.where(kept, aggregation.factor * nu / slices, 0.0)


def _constant(responses: Responses, aggregation: Aggregation, scope: Tensor, kept: Tensor) -> Tensor:
    """C of the ``-norm`` kinds for each response, 1 for the others."""
    one = torch.ones(responses.num_rows, dtype=torch.float64, device=responses.reward.device)
    if not aggregation.kind.endswith("-norm"):
        return one
    if aggregation.constant is None:
        msg = (
            f"aggregation '{aggregation.kind}' needs its constant, the generation budget: "
            "set aggregation.constant."
        )
        raise BadObjective(msg)
    if aggregation.constant != "longest":
        return one * aggregation.constant
    scopes = int(scope.max()) + 1 if scope.numel() else 0
    width = torch.zeros(scopes, dtype=torch.int64, device=one.device)
    return (
        width.scatter_reduce(0, scope, torch.where(kept, responses.length, 0), "amax")[scope]
        .clamp(min=1)
        .to(one.dtype)
    )


def _scope_tokens(
    responses: Responses, aggregation: Aggregation, tokens: Tensor, kept: Tensor, scope: Tensor
) -> Tensor:
    if aggregation.scope != "generation_batch":
        return _total(tokens, scope).clamp(min=1.0) + aggregation.epsilon
    rows = kept.to(torch.float64)
    share = _total(rows, responses.update) / _total(rows, responses.generation_batch).clamp(min=1.0)
    return (_total(tokens, responses.generation_batch).clamp(min=1.0) + aggregation.epsilon) * share


def _prompts_of(scope: Tensor, group: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Code of each response's (scope, group), and how many groups its scope holds."""
    groups = int(group.max()) + 1 if group.numel() else 1
    _, code = torch.unique(scope * groups + group, return_inverse=True)
    pairs = torch.unique((scope * groups + group)[kept])
    scopes = int(scope.max()) + 1 if scope.numel() else 0
    count = torch.bincount(pairs // groups, minlength=scopes).clamp(min=1)
    return code, count[scope].to(torch.float64)


def _total(values: Tensor, index: Tensor) -> Tensor:
    return group_sum(values, index, int(index.max()) + 1 if index.numel() else 0)[index]


def _micro_batches_per_update(responses: Responses, kept: Tensor) -> Tensor:
    assert responses.micro_batch is not None
    if not responses.num_rows:
        return torch.ones_like(responses.reward)
    # One code per pair: unique over one dimension sorts numbers, over two it compares rows.
    width = int(responses.micro_batch.max()) + 1
    pairs = torch.unique((responses.update * width + responses.micro_batch)[kept])
    counts = torch.bincount(pairs // width, minlength=int(responses.update.max()) + 1)
    return counts[responses.update].to(torch.float64)
