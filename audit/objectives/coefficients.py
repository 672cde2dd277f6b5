"""What an objective assigns to each response before it looks at tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self

from audit.errors import MissingColumn
from audit.objectives.advantages import advantages_of, dead_groups, finished, objective_reward
from audit.objectives.aggregation import aggregation_coefficients
from audit.objectives.arrays import (
    Array,
    as_float,
    as_tensors,
    at_least,
    count_codes,
    group_sum,
    library,
    silent,
)
from audit.objectives.batch import Responses, Tokens
from audit.objectives.corrections import correction_weight
from audit.objectives.needs import varies_by_token
from audit.objectives.objective import Objective
from audit.objectives.token_advantages import raw_token_advantages, token_moments

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Coefficients:
    """Per-response quantities of one objective; arrays of shape (R,), float64 unless said otherwise."""

    advantage: Array
    """Finished advantage; for objectives with one per token, their mean over loss tokens."""
    nu: Array
    """Aggregation coefficient of each token of the response; 0 for rows that take no loss."""
    nu_kl: Array
    """The same for the KL in the loss."""
    kept: Array
    """bool; the row enters the loss (not greedy, not filtered)."""
    masked: Array
    """bool; the row is kept but all of its tokens are masked (truncated)."""
    scored: Array
    """bool; the row has an advantage (neither greedy nor unscorable)."""
    raw: Array
    """Advantage of the response before whitening and clip."""
    shift: Array
    factor: Array
    reward: Array
    """Reward as the baseline sees it; NaN where unscorable or unknown."""
    mean_kl: Array
    """Mean of k(old, ref) over the loss tokens of the batch."""
    batch: Array
    """Micro-batch, else update, int64."""

    def tensors(self) -> Self:
        """The same as torch tensors, which weights of tokens are made from."""
        return as_tensors(self)

    def slice(self, start: int, stop: int) -> Self:
        """Coefficients of rows [start, stop)."""
        return replace(self, **{f.name: getattr(self, f.name)[start:stop] for f in fields(self)})


def needs_token_pass(objective: Objective) -> bool:
    """Whether the coefficients depend on sums over tokens that only this objective asks for."""
    leaves = any(correction.leaves_denominator for correction in objective.ratio.corrections)
    return decided_by_token(objective) or leaves


def decided_by_token(objective: Objective) -> bool:
    """Whether per-token advantages decide about a response."""
    logged = objective.baseline.kind == "logged" and objective.filter.zero_advantage
    return varies_by_token(objective) or logged


def token_pass(tokens: Tokens, coefficients: Coefficients, objective: Objective) -> tuple[Tensor, Tensor]:
    """Sums of one batch of tokens that :func:`row_coefficients` then needs of every response.

    Returns
    -------
    loss_tokens : Tensor, shape (R,), int64
        Loss tokens that the corrections leave in the denominator.
    moments : Tensor, shape (R, 5), float64
        Of the per-token advantages before whitening; see :attr:`Responses.token_moments`.
    """
    layout = tokens.layout
    moments = token_moments(tokens, token_advantage(tokens, coefficients, objective, whitened=False))
    counted = tokens.mask & layout.spread(~coefficients.masked)
    leaving = [c for c in objective.ratio.corrections if c.leaves_denominator]
    if leaving:
        tokens = replace(tokens, mask=counted)
        advantage = token_advantage(tokens, coefficients, objective)
        for correction in leaving:
            counted = counted & (correction_weight(tokens, correction, advantage) > 0)
    return layout.sum(counted.double()).long(), moments


@silent
def row_coefficients(
    responses: Responses, objective: Objective, *, denominator_tokens: Array | None = None
) -> Coefficients:
    """Advantage and aggregation coefficient of every response.

    Statistics and normalisers span the rows given: pass whole groups, updates and generation batches.

    Parameters
    ----------
    denominator_tokens : array, shape (R,), int64, optional
        Loss tokens that count in normalisers, where the objective's corrections remove some.

    Raises
    ------
    MissingColumn, BadObjective
        The log lacks what the objective needs.
    """
    made = advantages_of(responses, objective)
    kept = responses.trained
    if objective.filter.dynamic_sampling:
        kept = kept & ~dead_groups(responses, objective)
    if objective.filter.zero_advantage:
        kept = kept & made.some
    xp = library(kept)
    masked = xp.zeros_like(kept)
    loss_tokens = responses.loss_tokens if denominator_tokens is None else denominator_tokens
    if objective.filter.mask_truncated:
        if responses.truncated is None:
            raise MissingColumn.needed_for("finish_reason", "masking truncated responses")
        masked = responses.truncated
        loss_tokens = xp.where(masked, 0, loss_tokens)
    nu = aggregation_coefficients(responses, objective.aggregation, loss_tokens, kept)
    own = objective.kl.loss.aggregation if objective.kl.loss is not None else None
    return Coefficients(
        advantage=made.final,
        nu=nu,
        nu_kl=nu if own is None else aggregation_coefficients(responses, own, loss_tokens, kept),
        kept=kept,
        masked=masked,
        scored=made.scored,
        raw=made.raw,
        shift=made.shift,
        factor=made.factor,
        reward=_reward(responses, objective),
        mean_kl=_mean_kl(responses),
        batch=responses.update if responses.micro_batch is None else responses.micro_batch,
    )


def after_token_pass(
    responses: Responses, objective: Objective, loss_tokens: Array, moments: Array
) -> Coefficients:
    """Coefficients of all responses, with what :func:`token_pass` summed; arrays of shape (R,)."""
    if decided_by_token(objective):
        responses = replace(responses, token_moments=moments)
    return row_coefficients(responses, objective, denominator_tokens=loss_tokens)


def token_advantage(
    tokens: Tokens, coefficients: Coefficients, objective: Objective, *, whitened: bool = True
) -> Tensor:
    """Advantage of every token, shape (N,), float64."""
    layout = tokens.layout
    if objective.baseline.kind == "logged" and tokens.token_advantage is not None:
        raw = tokens.token_advantage
    elif varies_by_token(objective):
        c = coefficients
        raw = raw_token_advantages(tokens, c.raw, c.reward, c.mean_kl, objective)
    else:
        return layout.spread(coefficients.advantage if whitened else coefficients.raw)
    if whitened:
        raw = finished(raw, layout.spread(coefficients.shift), layout.spread(coefficients.factor), objective)
    return raw.masked_fill(~layout.spread(coefficients.scored), 0.0)


def _reward(responses: Responses, objective: Objective) -> Array:
    if objective.baseline.kind != "gae":
        return library(responses.reward).full_like(responses.reward, math.nan)
    return objective_reward(responses, objective)


def _mean_kl(responses: Responses) -> Array:
    if responses.reference_kl is None:
        return library(responses.reward).zeros_like(responses.reward)
    index = responses.generation_batch
    batches = count_codes(index)
    trained = as_float(responses.trained)
    tokens = group_sum(as_float(responses.loss_tokens) * trained, index, batches)
    return (group_sum(responses.reference_kl * trained, index, batches) / at_least(tokens, 1.0))[index]
