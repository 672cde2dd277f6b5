"""The effective weight of every token: w = -dL / d log pi_theta, as one optimiser step applied it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from audit.objectives.batch import Responses, Tokens, mean_over_loss_tokens
from audit.objectives.coefficients import (
    Coefficients,
    after_token_pass,
    needs_token_pass,
    row_coefficients,
    token_advantage,
    token_pass,
)
from audit.objectives.corrections import correction_weight
from audit.objectives.entropy import high_entropy
from audit.objectives.kl_loss import kl_gradient
from audit.objectives.objective import Objective
from audit.objectives.ratios import clamped_ratio, denominator, log_ratio, policy_ratio
from audit.objectives.surrogates import Step
from audit.objectives.token_advantages import token_kl


@dataclass(frozen=True)
class TokenWeights:
    """Weights of the tokens of a batch and their parts; tensors of shape (N,), float64.

    weight = policy + kl; every part is 0 at masked tokens.
    """

    weight: Tensor
    policy: Tensor
    """nu · kappa · A · c: the part that the reward drives."""
    kl: Tensor
    """-beta · nu · h: the part that the KL in the loss drives."""
    zeroed: Tensor
    """bool; the trust region removed the token's policy gradient."""


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
    w = nu kappa A c - beta nu h, with kappa the sampler corrections. With a whole-response ratio whose
    gradient is not stopped, the policy term of every token is the mean of nu kappa A c over the response:
    ``sequence`` since d s_i / d log pi_t = s_i / L_i; ``product`` since the response is one action and enters
    the loss once, with d P_i / d log pi_t = P_i.
    """
    layout, clip = tokens.layout, objective.clip
    active = tokens.mask & layout.spread(coefficients.kept & ~coefficients.masked)
    tokens = replace(tokens, mask=active)
    advantage = token_advantage(tokens, coefficients, objective)
    correction, on_kl, absorbable = _corrections(tokens, advantage, objective)
    log = log_ratio(tokens, objective.ratio)
    ratio = policy_ratio(tokens, objective.ratio, log)
    step = Step(
        tokens=tokens,
        log_ratio=log,
        ratio=ratio,
        denominator=denominator(tokens, objective.ratio),
        advantage=advantage,
        log_correction=absorbable,
        batch=coefficients.batch,
    )
    slope, zeroed = clip.slope(step)
    policy = layout.spread(coefficients.nu) * slope
    if objective.ratio.corrections and not clip.absorbs_corrections:
        policy = policy * correction
    policy = tokens.unmasked(policy)
    if objective.filter.top_entropy < 1.0:
        policy = policy * high_entropy(tokens, coefficients.batch, objective.filter.top_entropy)
    if not clip.stops_ratio:
        if clip.spreads or objective.ratio.level in ("sequence", "product"):
            policy = tokens.unmasked(layout.spread(mean_over_loss_tokens(tokens, policy)))
        if objective.ratio.clamp is not None:
            policy = policy.masked_fill(clamped_ratio(tokens, objective.ratio), 0.0)
        if clip.spreads:
            policy = policy.masked_fill(zeroed, 0.0)
    kl = kl_gradient(tokens, layout.spread(coefficients.nu_kl) * on_kl, ratio, objective)
    return TokenWeights(weight=policy + kl, policy=policy, kl=kl, zeroed=zeroed & active)


def effective_weights(tokens: Tokens, responses: Responses, objective: Objective) -> TokenWeights:
    """Weight of every token of a batch that holds whole groups, updates and generation batches.

    The one-call form of :func:`row_coefficients` and :func:`token_weights`; what they need of the tokens is
    summed here.

    Returns
    -------
    TokenWeights
        Tensors of shape (N,), float64.
    """
    return token_weights(tokens, batch_coefficients(tokens, responses, objective), objective)


def batch_coefficients(tokens: Tokens, responses: Responses, objective: Objective) -> Coefficients:
    """Coefficients of responses whose tokens are all at hand; tensors of shape (R,)."""
    responses = responses.tensors()
    kl = objective.kl.reward
    if kl is not None and kl.coefficient > 0.0:
        summed = tokens.layout.sum(token_kl(tokens, kl.estimator, kl.policy))
        responses = replace(responses, reference_kl=summed)
    if tokens.token_advantage is not None and objective.baseline.kind == "logged":
        responses = replace(responses, advantage=mean_over_loss_tokens(tokens, tokens.token_advantage))
    if objective.baseline.kind == "gae":
        responses = replace(responses, advantage=torch.zeros_like(responses.reward))
    coefficients = row_coefficients(responses, objective)
    if needs_token_pass(objective):
        counts, moments = token_pass(tokens, coefficients, objective)
        coefficients = after_token_pass(responses, objective, counts, moments)
    return coefficients


def _corrections(tokens: Tokens, advantage: Tensor, objective: Objective) -> tuple[Tensor, Tensor, Tensor]:
    """Product of the corrections, product of those that weigh the KL too, log for absorption; shape (N,).

    The logs of a response sum to the log of its correction: one of a whole response is shared out over its
    tokens. None is lower than that of 1e-8 (TRL 1.16 ``get_gamma_weights``).
    """
    one = advantage.new_ones(()).expand_as(advantage)
    policy, kl, log = one, one, advantage.new_zeros(()).expand_as(advantage)
    if not objective.ratio.corrections:
        return policy, kl, log
    count = tokens.layout.spread(tokens.layout.sum(tokens.mask.to(log.dtype)).clamp(min=1.0))
    for correction in objective.ratio.corrections:
        weight = correction_weight(tokens, correction, advantage)
        policy = policy * weight
        if correction.weighs_kl:
            kl = kl * weight
        own = weight.log().clamp(math.log(1e-8), 20.0)
        log = log + (own if correction.level == "token" else own / count)
    return policy, kl, log
