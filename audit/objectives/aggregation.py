"""From per-token losses to one number: the coefficient nu that multiplies every token of a response."""

from __future__ import annotations

from audit.errors import BadObjective, MissingColumn
from audit.objectives.arrays import (
    Array,
    as_float,
    at_least,
    count_codes,
    group_max,
    group_sum,
    library,
    silent,
)
from audit.objectives.batch import Responses
from audit.objectives.parts import Aggregation


@silent
def aggregation_coefficients(
    responses: Responses, aggregation: Aggregation, loss_tokens: Array, kept: Array
) -> Array:
    """Coefficient nu of each token of a response.

    Parameters
    ----------
    loss_tokens : Array, shape (R,), int64
        Tokens that take loss after masking.
    kept : Array, shape (R,), bool
        Rows that enter the loss; the others count nowhere.

    Returns
    -------
    Array, shape (R,), float64
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
    xp, kind = library(kept), aggregation.kind
    tokens = as_float(xp.where(kept, loss_tokens, 0))
    counted = kept if aggregation.rows == "all" else kept & (loss_tokens > 0)
    rows = as_float(counted)
    if aggregation.scope == "micro_batch":
        if responses.micro_batch is None:
            raise MissingColumn.needed_for(
                "micro_batch", "aggregation over micro-batches", hint="Or set aggregation.scope=update."
            )
        scope, slices = responses.micro_batch, _micro_batches_per_update(responses, kept)
    else:
        scope, slices = responses.update, xp.ones_like(rows)

    constant = _constant(responses, aggregation, scope, kept)
    if kind in ("token-sum", "token-sum-norm"):
        nu = 1.0 / constant
    elif kind == "token-mean":
        nu = 1.0 / _scope_tokens(responses, aggregation, tokens, kept, scope)
    elif kind == "prompt-mean-token-mean":
        prompt, prompts = _prompts_of(scope, responses.group, kept)
        nu = 1.0 / (prompts * (at_least(_total(tokens, prompt), 1.0) + aggregation.epsilon))
    else:
        nu = 1.0 / (at_least(_total(rows, scope), 1.0) * constant)
        if kind == "seq-mean-token-mean":
            nu = nu / (at_least(tokens, 1.0) + aggregation.epsilon)
    return xp.where(kept, aggregation.factor * nu / slices, 0.0)


def _constant(responses: Responses, aggregation: Aggregation, scope: Array, kept: Array) -> Array:
    """C of the ``-norm`` kinds for each response, 1 for the others."""
    one = as_float(library(kept).ones_like(kept))
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
    length = as_float(library(kept).where(kept, responses.length, 0))
    return at_least(group_max(length, scope, count_codes(scope))[scope], 1.0)


def _scope_tokens(
    responses: Responses, aggregation: Aggregation, tokens: Array, kept: Array, scope: Array
) -> Array:
    if aggregation.scope != "generation_batch":
        return at_least(_total(tokens, scope), 1.0) + aggregation.epsilon
    rows = as_float(kept)
    share = _total(rows, responses.update) / at_least(_total(rows, responses.generation_batch), 1.0)
    return (at_least(_total(tokens, responses.generation_batch), 1.0) + aggregation.epsilon) * share


def _prompts_of(scope: Array, group: Array, kept: Array) -> tuple[Array, Array]:
    """Code of each response's (scope, group), and how many groups its scope holds."""
    xp, groups = library(group), max(count_codes(group), 1)
    _, code = xp.unique(scope * groups + group, return_inverse=True)
    pairs = xp.unique((scope * groups + group)[kept])
    count = xp.bincount(pairs // groups, minlength=count_codes(scope))
    return code, at_least(as_float(count), 1.0)[scope]


def _total(values: Array, index: Array) -> Array:
    return group_sum(values, index, count_codes(index))[index]


def _micro_batches_per_update(responses: Responses, kept: Array) -> Array:
    assert responses.micro_batch is not None
    xp = library(kept)
    if not responses.num_rows:
        return xp.ones_like(responses.reward)
    # One code per pair: unique over one dimension sorts numbers, over two it compares rows.
    width = count_codes(responses.micro_batch)
    pairs = xp.unique((responses.update * width + responses.micro_batch)[kept])
    counts = xp.bincount(pairs // width, minlength=count_codes(responses.update))
    return as_float(counts)[responses.update]
