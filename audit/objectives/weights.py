"""The effective weight of every token: w = -dL / d log pi_theta, as one optimiser step applied it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from audit.errors import MissingColumn
from audit.objectives.advantages import advantages, dead_groups
from audit.objectives.aggregation import aggregation_coefficients
from audit.objectives.batch import Responses, Tokens, mean_over_loss_tokens
from audit.objectives.clips import clip_factor
from audit.objectives.kl import Estimator, kl_slope, kl_value
from audit.objectives.objective import LossKL, Objective
from audit.objectives.ratios import policy_ratio


@dataclass(frozen=True)
class Coefficients:
    """What an objective assigns to each response before it looks at tokens; tensors of shape (R,)."""

    advantage: Tensor
    """float64."""
    nu: Tensor
    """Aggregation coefficient of each token of the response, float64; 0 for rows that take no loss."""
    kept: Tensor
    """bool; the row enters the loss (not greedy, not filtered)."""
    masked: Tensor
    """bool; the row is kept but all of its tokens are masked (truncated)."""


@dataclass(frozen=True)
class TokenWeights:
    """Weights of the tokens of a batch and their parts; tensors of shape (N,), float64.

    weight = policy + kl; every part is 0 at masked tokens.
    """

    weight: Tensor
    policy: Tensor
    """nu · A · c: the part that the reward drives."""
    kl: Tensor
    """-beta · nu · h: the part that the KL in the loss drives."""
    zeroed: Tensor
    """bool; the clip removed the token's policy gradient."""


def row_coefficients(responses: Responses, objective: Objective) -> Coefficients:
    """Advantage and aggregation coefficient of every response.

    Statistics and normalisers span the rows given: pass whole groups, updates and generation batches.

    Raises
    ------
    MissingColumn, BadObjective
        The log lacks what the objective needs.
    """
    kept = responses.trained
    if objective.filter.dynamic_sampling:
        kept = kept & ~dead_groups(responses, objective)
    masked = torch.zeros_like(kept)
    loss_tokens = responses.loss_tokens
    if objective.filter.mask_truncated:
        if responses.truncated is None:
            raise MissingColumn.needed_for("finish_reason", "masking truncated responses")
        masked = responses.truncated
        loss_tokens = torch.where(masked, 0, loss_tokens)
    return Coefficients(
        advantage=advantages(responses, objective),
        nu=aggregation_coefficients(responses, objective.aggregation, loss_tokens, kept),
        kept=kept,
        masked=masked,
    )


def token_weights(tokens: Tokens, coefficients: Coefficients, objective: Objective) -> TokenWeights:
    """Weight of every token, given the coefficients of the same responses in the same order.

    Parameters
    ----------
    tokens : Tokens
        R responses, N tokens.
    coefficients : Coefficients
        Shape (R,).

    Notes
    -----
    w = nu A c - beta nu h. With a whole-response ratio whose gradient is not stopped, the policy term of
    every token is the mean of nu A c over the response: ``sequence`` since d s_i / d log pi_t = s_i / L_i;
    ``product`` since the response is one action and enters the loss once, with d P_i / d log pi_t = P_i.
    """
    layout = tokens.layout
    active = tokens.mask & layout.spread(coefficients.kept & ~coefficients.masked)
    tokens = replace(tokens, mask=active)
    nu = layout.spread(coefficients.nu)
    if objective.baseline.kind == "logged" and tokens.token_advantage is not None:
        advantage = tokens.token_advantage
    else:
        advantage = layout.spread(coefficients.advantage)

    ratio = policy_ratio(tokens, objective.ratio)
    factor, zeroed = clip_factor(ratio, advantage, objective.clip)
    policy = tokens.unmasked(nu * advantage * factor)
    if objective.ratio.level != "token" and objective.clip.kind != "cispo":
        policy = layout.spread(mean_over_loss_tokens(tokens, policy))
        policy = tokens.unmasked(policy)

    kl = torch.zeros_like(policy)
    if objective.kl.loss is not None and objective.kl.loss.coefficient > 0.0:
        kl = -objective.kl.loss.coefficient * _kl_gradient(tokens, nu, ratio, objective, objective.kl.loss)
    return TokenWeights(weight=policy + kl, policy=policy, kl=kl, zeroed=zeroed & active)


def effective_weights(tokens: Tokens, responses: Responses, objective: Objective) -> TokenWeights:
    """Weight of every token of a batch that holds whole groups, updates and generation batches.

    The one-call form of :func:`row_coefficients` and :func:`token_weights`; KL in the reward is summed here.

    Returns
    -------
    TokenWeights
        Tensors of shape (N,), float64.
    """
    if objective.kl.reward is not None and objective.kl.reward.coefficient > 0.0:
        kl = reference_kl(tokens, objective.kl.reward.estimator)
        responses = replace(responses, reference_kl=kl)
    if tokens.token_advantage is not None and objective.baseline.kind == "logged":
        responses = replace(responses, advantage=mean_over_loss_tokens(tokens, tokens.token_advantage))
    return token_weights(tokens, row_coefficients(responses, objective), objective)


def reference_kl(tokens: Tokens, estimator: Estimator) -> Tensor:
    """Sum over loss tokens of k(old, ref) per response; shape (R,), float64, nats."""
    for column, values in (("logp_old", tokens.logp_old), ("logp_ref", tokens.logp_ref)):
        if values is None:
            raise MissingColumn.needed_for(column, "KL in the reward")
    assert tokens.logp_old is not None
    assert tokens.logp_ref is not None
    difference = tokens.unmasked(tokens.logp_old - tokens.logp_ref)
    return tokens.layout.sum(tokens.unmasked(kl_value(difference, estimator)))


def _kl_gradient(tokens: Tokens, nu: Tensor, ratio: Tensor, objective: Objective, kl: LossKL) -> Tensor:
    for column, values in (("logp_theta", tokens.logp_theta), ("logp_ref", tokens.logp_ref)):
        if values is None:
            raise MissingColumn.needed_for(column, f"KL in the loss ({objective.name})")
    assert tokens.logp_theta is not None
    assert tokens.logp_ref is not None
    difference = tokens.unmasked(tokens.logp_theta - tokens.logp_ref)
    slope = kl_slope(difference, kl.estimator)
    if kl.gradient == "pathwise":
        return tokens.unmasked(nu * slope)
    value = kl_value(difference, kl.estimator)
    if objective.ratio.level == "token":
        # For k3 the two terms sum to d; adding them as exp(-d) - exp(-d) would cancel for ref >> theta.
        both = difference if kl.estimator == "k3" else slope + value
        return tokens.unmasked(nu * ratio * both)
    # Every token's log-prob moves the ratio that multiplies the KL of every other token of the response.
    through_ratio = tokens.layout.sum(tokens.unmasked(nu * ratio * value))
    if objective.ratio.level == "sequence":
        through_ratio = through_ratio / tokens.layout.sum(tokens.mask.double()).clamp(min=1.0)
    return tokens.unmasked(nu * ratio * slope + tokens.layout.spread(through_ratio))
