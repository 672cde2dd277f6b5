"""What an objective assigns to each response before it looks at tokens."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

from audit.errors import MissingColumn
from audit.objectives.advantages import advantages_of, dead_groups, finished, objective_reward
from audit.objectives.aggregation import aggregation_coefficients
from audit.objectives.batch import Responses, Tokens
from audit.objectives.corrections import correction_weight
from audit.objectives.needs import varies_by_token
from audit.objectives.objective import Objective
from audit.objectives.token_advantages import raw_token_advantages, token_moments
from audit.ragged import group_sum


@dataclass(frozen=True)
class Coefficients:
    """Per-response quantities of one objective; tensors of shape (R,), float64 unless said otherwise."""

    advantage: Tensor
    """Finished advantage; for objectives with one per token, their mean over loss tokens."""
    nu: Tensor
    """Aggregation coefficient of each token of the response; 0 for rows that take no loss."""
    nu_kl: Tensor
    """The same for the KL in the loss."""
    kept: Tensor
    """bool; the row enters the loss (not greedy, not filtered)."""
    masked: Tensor
    """bool; the row is kept but all of its tokens are masked (truncated)."""
    scored: Tensor
    """bool; the row has an advantage (neither greedy nor unscorable)."""
    raw: Tensor
    """Advantage of the response before whitening and clip."""
    shift: Tensor
    factor: Tensor
    reward: Tensor
    """Reward as the baseline sees it; NaN where unscorable or unknown."""
    mean_kl: Tensor
    """Mean of k(old, ref) over the loss tokens of the batch."""
    batch: Tensor
    """Micro-batch, else update, int64."""

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
    active = tokens.mask & layout.spread(~coefficients.masked)
    tokens = replace(tokens, mask=active)
    advantage = token_advantage(tokens, coefficients, objective)
    counted = active
    for correction in objective.ratio.corrections:
        if correction.leaves_denominator:
            counted = counted & (correction_weight(tokens, correction, advantage) > 0)
    return layout.sum(counted.to(torch.int64)), moments


def row_coefficients(
    responses: Responses, objective: Objective, *, denominator_tokens: Tensor | None = None
) -> Coefficients:
    """Advantage and aggregation coefficient of every response.

    Statistics and normalisers span the rows given: pass whole groups, updates and generation batches.

    Parameters
    ----------
    denominator_tokens : Tensor, shape (R,), int64, optional
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
    masked = torch.zeros_like(kept)
    loss_tokens = responses.loss_tokens if denominator_tokens is None else denominator_tokens
    if objective.filter.mask_truncated:
        if responses.truncated is None:
            raise MissingColumn.needed_for("finish_reason", "masking truncated responses")
        masked = responses.truncated
        loss_tokens = torch.where(masked, 0, loss_tokens)
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


def _reward(responses: Responses, objective: Objective) -> Tensor:
    if objective.baseline.kind != "gae":
        return torch.full_like(responses.reward, torch.nan)
    return objective_reward(responses, objective)


def _mean_kl(responses: Responses) -> Tensor:
    if responses.reference_kl is None:
        return torch.zeros_like(responses.reward)
    index = responses.generation_batch
    batches = int(index.max()) + 1 if index.numel() else 0
    trained = responses.trained.to(torch.float64)
    tokens = group_sum(responses.loss_tokens.to(torch.float64) * trained, index, batches)
    return (group_sum(responses.reference_kl * trained, index, batches) / tokens.clamp(min=1.0))[index]
