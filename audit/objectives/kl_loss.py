"""The KL term in the loss: its gradient with respect to each token's log-prob."""

from __future__ import annotations

import torch
from torch import Tensor

from audit.errors import MissingColumn
from audit.objectives.batch import Tokens
from audit.objectives.kl import kl_slope, kl_value
from audit.objectives.objective import Objective
from audit.objectives.parts import LossKL
from audit.objectives.ratios import clamped_ratio


def kl_gradient(tokens: Tokens, nu: Tensor, ratio: Tensor, objective: Objective) -> Tensor:
    """-beta nu h of every token, shape (N,), float64; 0 where there is no KL in the loss.

    Parameters
    ----------
    nu : Tensor, shape (N,)
        Aggregation coefficient of the KL term.
    ratio : Tensor, shape (N,)
        The policy ratio, for the gradients that carry it.

    Raises
    ------
    MissingColumn
        logp_theta or logp_ref was not logged.

    Notes
    -----
    h: ``pathwise`` k'(d); ``ratio`` rho (k' + k), with the ratio's own reach over the response;
    ``unit_ratio`` k' + k, 0 where a clamp holds; ``straight_through`` min(rho, cap) d, or d.
    TRL 1.16 ``use_bias_correction_kl``; NeMo-RL loss_functions.py; verl 0.9.1 ``kl_penalty`` with ``+``;
    OpenRLHF 0.11.2 ``unbiased_gradient``.
    """
    kl = objective.kl.loss
    if kl is None or kl.coefficient == 0.0:
        return torch.zeros_like(nu)
    column, other = _other_policy(tokens, kl)
    if tokens.logp_theta is None or other is None:
        missing = column if other is None else "logp_theta"
        hint = "Or leave the KL out: --set kl.loss=null."
        raise MissingColumn.needed_for(missing, f"KL in the loss ({objective.name})", hint=hint)
    difference = tokens.unmasked(tokens.logp_theta - other)
    value, slope, inside = _clamped(difference, kl)
    if kl.gradient == "straight_through":
        weight = 1.0 if kl.ratio_cap is None else ratio.clamp(max=kl.ratio_cap)
        pull = nu * weight * difference
    elif kl.gradient == "pathwise":
        pull = nu * slope
    elif kl.gradient == "unit_ratio":
        # The clamps detach the ratio too, so that nothing is left of a clamped token.
        pull = nu * _sum(value, slope, difference, kl).masked_fill(~inside, 0.0)
    elif objective.ratio.level in ("token", "sequence_token"):
        moved = ratio * _sum(value, slope, difference, kl)
        pull = nu * torch.where(clamped_ratio(tokens, objective.ratio), ratio * slope, moved)
    else:
        # Every token's log-prob moves the ratio that multiplies the KL of every other token of the response.
        through = tokens.layout.sum(tokens.unmasked(nu * ratio * value))
        if objective.ratio.level == "sequence":
            through = through / tokens.layout.sum(tokens.mask.double()).clamp(min=1.0)
        reach = tokens.layout.spread(through).masked_fill(clamped_ratio(tokens, objective.ratio), 0.0)
        pull = nu * ratio * slope + reach
    return tokens.unmasked(-kl.coefficient * pull)


def _other_policy(tokens: Tokens, kl: LossKL) -> tuple[str, Tensor | None]:
    """Column and log-probs of the policy that the KL is against."""
    if kl.against is None:
        return "logp_ref", tokens.logp_ref
    if kl.against == "old":
        return "logp_old", tokens.logp_old
    return "logp_sampler", tokens.logp_sampler


def _clamped(difference: Tensor, kl: LossKL) -> tuple[Tensor, Tensor, Tensor]:
    """Value of k and its slope, with the clamps of ``kl``, and which tokens no clamp holds."""
    inside = torch.ones_like(difference, dtype=torch.bool)
    bounded = difference
    if kl.input_clamp is not None:
        bounded = difference.clamp(-kl.input_clamp, kl.input_clamp)
        inside = difference.abs() <= kl.input_clamp
    value = kl_value(bounded, kl.estimator)
    if kl.output_clamp is not None:
        inside = inside & (value.abs() <= kl.output_clamp)
        value = value.clamp(-kl.output_clamp, kl.output_clamp)
    return value, kl_slope(bounded, kl.estimator).masked_fill(~inside, 0.0), inside


def _sum(value: Tensor, slope: Tensor, difference: Tensor, kl: LossKL) -> Tensor:
    """k + k'; for k3 without clamps that is d, which adding exp(-d) - exp(-d) would lose for ref >> theta."""
    if kl.estimator == "k3" and kl.input_clamp is None and kl.output_clamp is None:
        return difference
    return value + slope
