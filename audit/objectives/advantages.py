"""From rewards to advantages: baseline and scale over groups or batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from audit.errors import BadObjective, MissingColumn
from audit.objectives.batch import Responses
from audit.objectives.objective import Objective
from audit.objectives.shaping import shaped_reward
from audit.ragged import group_sum

SLACK = 1e-9
"""Rounding of a sample count: a lone trajectory of k rows sums k times 1 / k, which can exceed 1."""


@dataclass(frozen=True)
class Pool:
    """Weighted first and second moments of the scorable rewards of each group."""

    index: Tensor
    count: Tensor
    mean: Tensor
    squares: Tensor
    dead: Tensor
    """bool, shape (groups,): all scorable rewards equal (or none); compared as max = min, never by std."""

    @classmethod
    def of(cls, reward: Tensor, index: Tensor, weight: Tensor) -> Pool:
        """Pool ``reward`` over ``index``; rows of weight 0 (unscorable, greedy) do not count."""
        groups = int(index.max()) + 1 if index.numel() else 0
        counted = weight > 0
        value = torch.where(counted, reward, 0.0)
        count = group_sum(weight, index, groups)
        mean = group_sum(weight * value, index, groups) / count.clamp(min=torch.finfo(count.dtype).tiny)
        residual = torch.where(counted, reward - mean[index], 0.0)
        squares = group_sum(weight * residual * residual, index, groups)
        high = torch.full_like(mean, -torch.inf).scatter_reduce(
            0, index, torch.where(counted, reward, -torch.inf), "amax"
        )
        low = torch.full_like(mean, torch.inf).scatter_reduce(
            0, index, torch.where(counted, reward, torch.inf), "amin"
        )
        return cls(index, count, mean, squares, high <= low)

    def std(self, ddof: int) -> Tensor:
        """Standard deviation of each group with ``ddof`` degrees of freedom removed; inf if none is left."""
        return torch.where(self.count > ddof + SLACK, self.squares / (self.count - ddof), torch.inf).sqrt()


def objective_reward(responses: Responses, objective: Objective) -> Tensor:
    """Reward as the baseline sees it: shaped, minus the KL in the reward; shape (R,), float64."""
    reward = shaped_reward(responses.reward, responses.length, objective.shaping)
    if objective.kl.reward is not None and objective.kl.reward.coefficient > 0.0:
        if responses.reference_kl is None:
            raise MissingColumn.needed_for("logp_ref", f"KL in the reward ({objective.name})")
        reward = reward - objective.kl.reward.coefficient * responses.reference_kl
    return reward


def sample_weights(responses: Responses, reward: Tensor) -> Tensor:
    """Weight of each row in group statistics: 0 if unscorable or greedy, else 1 / rows of its trajectory."""
    weight = responses.sample_weight
    if weight is None:
        weight = torch.ones_like(reward)
    return torch.where(responses.trained & ~reward.isnan(), weight, 0.0)


def dead_groups(responses: Responses, objective: Objective) -> Tensor:
    """Return bool, shape (R,): the row's group has no two different shaped rewards (KL left out)."""
    reward = shaped_reward(responses.reward, responses.length, objective.shaping)
    pool = Pool.of(reward, responses.group, sample_weights(responses, reward))
    return pool.dead[responses.group]


def advantages(responses: Responses, objective: Objective) -> Tensor:
    """Advantage of each response under the baseline and scale of ``objective``.

    Returns
    -------
    Tensor, shape (R,), float64
        0 for unscorable and greedy rows, and exactly 0 in a dead group whose baseline is its own mean.

    Raises
    ------
    MissingColumn
        ``logged`` without advantages, ``greedy`` without a greedy row, KL in the reward without logp_ref.

    Notes
    -----
    GRPO: arXiv:2402.03300 sec. 4.1.2. RLOO: arXiv:2402.14740 eq. 3; leave-one-out is G/(G-1) times the
    group-mean advantage. ReMax: arXiv:2310.10505. TRL's rule for unscorable rows (grpo_trainer.py 1.16:
    left out of the statistics, advantage 0) is used throughout.
    """
    baseline, scale = objective.baseline, objective.scale
    if baseline.kind == "logged":
        if responses.advantage is None:
            raise MissingColumn.needed_for("advantage", f"objective '{objective.name}' (logged advantages)")
        return torch.where(responses.trained, responses.advantage, 0.0)

    reward = objective_reward(responses, objective)
    weight = sample_weights(responses, reward)
    group = Pool.of(reward, responses.group, weight)
    batch = Pool.of(reward, responses.generation_batch, weight)

    if baseline.kind == "none":
        centred = reward
    elif baseline.kind == "greedy":
        greedy = _greedy_reward(responses, reward)
        centred = torch.where(greedy.isnan(), 0.0, reward - greedy)
    elif baseline.kind == "batch_mean":
        centred = reward - batch.mean[batch.index]
    else:
        centred = torch.where(group.dead[group.index], 0.0, reward - group.mean[group.index])
        if baseline.kind == "leave_one_out":
            count = group.count[group.index]
            centred = centred * torch.where(count > 1.0 + SLACK, count / (count - 1.0), 0.0)

    if scale.kind != "none":
        pool = group if scale.kind == "group_std" else batch
        divisor = (pool.std(scale.ddof) + scale.epsilon)[pool.index]
        centred = torch.where(pool.dead[pool.index], centred, centred / divisor)
    return torch.where(weight > 0, centred, 0.0)


def _greedy_reward(responses: Responses, reward: Tensor) -> Tensor:
    if responses.greedy is None or not bool(responses.greedy.any()):
        raise MissingColumn.needed_for("is_greedy", "the greedy baseline (ReMax)")
    groups = int(responses.group.max()) + 1
    greedy = responses.greedy.to(reward.dtype)
    count = group_sum(greedy, responses.group, groups)
    if bool((count != 1)[responses.group[responses.trained]].any()):
        bad = int((count != 1).sum())
        msg = f"the greedy baseline needs exactly one greedy row per group; {bad} of {groups} groups differ."
        raise BadObjective(msg)
    total = group_sum(torch.where(responses.greedy, reward, 0.0), responses.group, groups)
    return total[responses.group]
