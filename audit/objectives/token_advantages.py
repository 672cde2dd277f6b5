"""Advantages that vary inside a response: GAE, and KL penalties paid token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from audit.errors import MissingColumn
from audit.objectives.batch import Tokens
from audit.objectives.kl import kl_value
from audit.objectives.objective import Objective
from audit.objectives.part import Estimator

if TYPE_CHECKING:
    from torch import Tensor

    from audit.ragged import Layout


def raw_token_advantages(
    tokens: Tokens, raw: Tensor, reward: Tensor, mean_kl: Tensor, objective: Objective
) -> Tensor:
    """Advantage of every token before whitening and clip; shape (N,), float64, 0 at masked tokens.

    Parameters
    ----------
    raw : Tensor, shape (R,)
        Advantage of the response.
    reward : Tensor, shape (R,)
        Reward as the baseline sees it; GAE pays it out at the last loss token.
    mean_kl : Tensor, shape (R,)
        Mean of k(old, ref) over the loss tokens of the response's batch, for the centred penalty.
    """
    import torch

    kl = objective.kl.reward
    paid = torch.zeros(tokens.layout.num_values, dtype=torch.float64, device=tokens.mask.device)
    if kl is not None and kl.coefficient > 0.0 and kl.form != "sum":
        paid = kl.coefficient * token_kl(tokens, kl.estimator, kl.policy)
    if objective.baseline.kind == "gae":
        return gae(tokens, reward, paid, objective.baseline.gamma, objective.baseline.lam)
    value = tokens.layout.spread(raw)
    if kl is not None and kl.form == "to_go":
        paid = suffix_sum(tokens, paid)
    elif kl is not None and kl.form == "centred":
        paid = paid - kl.coefficient * tokens.layout.spread(mean_kl)
    return tokens.unmasked(value - paid)


def token_kl(tokens: Tokens, estimator: Estimator, policy: Literal["old", "sampler"] = "old") -> Tensor:
    """k(policy, ref) of every token, 0 at masked tokens; shape (N,), float64, nats.

    Raises
    ------
    MissingColumn
        The log-probs of ``policy`` or of the reference were not logged.
    """
    upper = tokens.logp_old if policy == "old" else tokens.logp_sampler
    if upper is None or tokens.logp_ref is None:
        column = f"logp_{policy}" if upper is None else "logp_ref"
        raise MissingColumn.needed_for(column, "KL in the reward")
    return tokens.unmasked(kl_value(tokens.unmasked(upper - tokens.logp_ref), estimator))


def token_moments(tokens: Tokens, values: Tensor) -> Tensor:
    """What :attr:`Responses.token_moments` holds, of ``values`` at the loss tokens; shape (R, 5)."""
    import torch

    layout = tokens.layout
    count = layout.sum(tokens.mask.to(values.dtype))
    total = layout.sum(tokens.unmasked(values))
    mean = layout.spread(total / count.clamp(min=1.0))
    within = layout.sum(tokens.unmasked((values - mean).square()))
    least, greatest = (values.masked_fill(~tokens.mask, bound) for bound in (torch.inf, -torch.inf))
    low = torch.segment_reduce(least, "min", offsets=layout.offsets, initial=torch.inf)
    high = torch.segment_reduce(greatest, "max", offsets=layout.offsets, initial=-torch.inf)
    return torch.stack([count, total, within, low, high], dim=1)


def suffix_sum(tokens: Tokens, values: Tensor) -> Tensor:
    """Sum of ``values`` from each token to the end of its response; shape (N,)."""
    return _discounted(tokens.layout, values, 1.0)


def _discounted(layout: Layout, values: Tensor, discount: float) -> Tensor:
    """Sum over s >= t of discount^(s - t) · values[s] to the end of each response; shape (N,).

    Spans double: what a token has of the next n values takes in what the token n places on has. So the
    passes over all tokens are as many as the longest response has binary digits, and no difference of sums
    over the whole batch loses digits.
    """
    import torch

    if not layout.num_rows:
        return values
    at = torch.arange(layout.num_values, device=values.device)
    following = layout.spread(layout.offsets[1:]) - at
    made, nothing = values.clone(), values.new_zeros(())
    span, longest = 1, int(layout.lengths.max())
    while span < longest:
        # Chosen, not multiplied: another response's infinity must not come in as 0 · inf.
        further = made[span:].where(following[:-span] > span, nothing)
        made[:-span].add_(further, alpha=discount**span)
        span *= 2
    return made


def gae(tokens: Tokens, reward: Tensor, paid: Tensor, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimation on logged critic values; shape (N,), float64.

    Masked tokens are passed over: they neither earn nor bootstrap. arXiv:1506.02438 eq. 16; verl 0.9.1
    core_algos.py ``compute_gae_advantage_return``.

    Raises
    ------
    MissingColumn
        No critic values were logged.
    """
    import torch

    from audit.ragged import Layout

    if tokens.value is None:
        raise MissingColumn.needed_for("value", "generalised advantage estimation")
    taken = tokens.mask
    layout = Layout.from_lengths(tokens.layout.sum(taken.double()))
    if not layout.num_values:
        return torch.zeros_like(tokens.value)
    values, last = tokens.value[taken], layout.offsets[1:][layout.lengths > 0] - 1
    earned = (-paid[taken]).index_add(0, last, reward.nan_to_num(0.0)[layout.lengths > 0])
    following = torch.cat([values[1:], values.new_zeros(1)]).index_fill(0, last, 0.0)
    delta = earned + gamma * following - values
    made = torch.zeros_like(tokens.value)
    made[taken] = _discounted(layout, delta, gamma * lam)
    return made
