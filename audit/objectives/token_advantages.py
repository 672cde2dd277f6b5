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
    rows = layout.rows[tokens.mask]
    low = torch.full_like(count, torch.inf).scatter_reduce(0, rows, values[tokens.mask], "amin")
    high = torch.full_like(count, -torch.inf).scatter_reduce(0, rows, values[tokens.mask], "amax")
    return torch.stack([count, total, within, low, high], dim=1)


def suffix_sum(tokens: Tokens, values: Tensor) -> Tensor:
    """Sum of ``values`` from each token to the end of its response; shape (N,)."""
    layout = tokens.layout
    made = values.new_zeros(len(values))
    # From the ends, not as a difference of sums over the whole batch, which would lose the digits.
    running = values.new_zeros(layout.num_rows)
    for place in range(_longest(tokens) - 1, -1, -1):
        rows = (layout.lengths > place).nonzero().flatten()
        token = layout.offsets[rows] + place
        running[rows] += values[token]
        made[token] = running[rows]
    return made


def _longest(tokens: Tokens) -> int:
    return int(tokens.layout.lengths.max()) if tokens.layout.num_rows else 0


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

    if tokens.value is None:
        raise MissingColumn.needed_for("value", "generalised advantage estimation")
    layout = tokens.layout
    values = tokens.unmasked(tokens.value)
    earned = -paid
    at = torch.arange(layout.num_values, device=values.device)
    last = torch.full((layout.num_rows,), -1, dtype=torch.int64, device=values.device)
    last = last.scatter_reduce(0, layout.rows[tokens.mask], at[tokens.mask], "amax")
    ends = last[last >= 0]
    earned = earned.index_add(0, ends, reward.nan_to_num(0.0)[last >= 0])
    made = torch.zeros_like(values)
    following = values.new_zeros(layout.num_rows)
    running = values.new_zeros(layout.num_rows)
    for place in range(_longest(tokens) - 1, -1, -1):
        rows = (layout.lengths > place).nonzero().flatten()
        token = layout.offsets[rows] + place
        taken = tokens.mask[token]
        rows, token = rows[taken], token[taken]
        delta = earned[token] + gamma * following[rows] - values[token]
        running[rows] = delta + gamma * lam * running[rows]
        following[rows] = values[token]
        made[token] = running[rows]
    return made
