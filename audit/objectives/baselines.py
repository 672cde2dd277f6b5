"""Baselines: what is subtracted from the reward, one function per kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.errors import BadObjective, MissingColumn
from audit.objectives.batch import Responses
from audit.objectives.parts import Baseline
from audit.objectives.pools import SLACK, Pool
from audit.ragged import group_sum


@dataclass(frozen=True)
class Rewards:
    """The reward that a baseline sees, shape (R,), with its statistics over groups and over batches."""

    value: Tensor
    weight: Tensor
    """0 for rows that are unscorable or greedy, else 1 / rows of the trajectory."""
    group: Pool
    batch: Pool
    responses: Responses

    @classmethod
    def of(cls, responses: Responses, value: Tensor, weight: Tensor) -> Rewards:
        """Pool ``value``, shape (R,), over the groups and generation batches of ``responses``."""
        group = Pool.of(value, responses.group, weight)
        return cls(value, weight, group, Pool.of(value, responses.generation_batch, weight), responses)


def centred(rewards: Rewards, baseline: Baseline) -> Tensor:
    """Reward minus baseline, shape (R,), float64; exactly 0 in a dead group whose baseline is its own mean.

    Raises
    ------
    MissingColumn
        ``greedy`` without a greedy row.
    BadObjective
        Not one greedy row per group; ``pass_at_k`` with fewer than k responses.
    """
    value = BASELINES[baseline.kind](rewards, baseline)
    if baseline.singleton == "raw" and baseline.kind not in ("none", "batch_mean", "greedy"):
        alone = rewards.group.rows(rewards.group.count) <= 1.0 + SLACK
        value = torch.where(alone, rewards.value, value)
    return value


def _none(rewards: Rewards, baseline: Baseline) -> Tensor:
    del baseline
    return rewards.value


def _group_mean(rewards: Rewards, baseline: Baseline) -> Tensor:
    del baseline
    group = rewards.group
    return torch.where(group.rows(group.dead), 0.0, rewards.value - group.rows(group.mean))


def _leave_one_out(rewards: Rewards, baseline: Baseline) -> Tensor:
    count = rewards.group.rows(rewards.group.count)
    return _group_mean(rewards, baseline) * torch.where(count > 1.0 + SLACK, count / (count - 1.0), 0.0)


def _batch_mean(rewards: Rewards, baseline: Baseline) -> Tensor:
    del baseline
    return rewards.value - rewards.batch.rows(rewards.batch.mean)


def _length_weighted(rewards: Rewards, baseline: Baseline) -> Tensor:
    """OPO, arXiv:2505.23585: the variance-optimal baseline if the squared score norm grows with length."""
    del baseline
    responses = rewards.responses
    weight = rewards.weight * responses.loss_tokens.to(rewards.value.dtype)
    pool = Pool.of(rewards.value, responses.group, weight)
    return torch.where(rewards.group.rows(rewards.group.dead), 0.0, rewards.value - pool.rows(pool.mean))


def _runner_up(rewards: Rewards, baseline: Baseline) -> Tensor:
    """Pass@k as best minus second best, arXiv:2503.19595 (verl 0.9.1 ``grpo_passk``); ties leave nothing."""
    del baseline
    group = rewards.group
    counted = rewards.weight > 0
    best = counted & (rewards.value == group.rows(group.high))
    ties = group.rows(group_sum(torch.where(best, rewards.weight, 0.0), group.index, group.count.numel()))
    rest = torch.where(counted & ~best, rewards.value, -torch.inf)
    second = torch.full_like(group.mean, -torch.inf).scatter_reduce(0, group.index, rest, "amax")
    lead = rewards.value - group.rows(second)
    return torch.where(best & (ties <= 1.0 + SLACK) & lead.isfinite(), lead, 0.0)


def _pass_at_k(rewards: Rewards, baseline: Baseline) -> Tensor:
    """Analytic pass@k, arXiv:2508.10751: a response succeeds where its reward is positive."""
    assert baseline.k is not None
    group, k = rewards.group, baseline.k
    success = (rewards.value > 0) & (rewards.weight > 0)
    n = group.rows(group.count)
    if bool((n[rewards.weight > 0] < k - SLACK).any()):
        msg = f"pass@k with k = {k} needs at least {k} responses in every group."
        raise BadObjective(msg)
    right = group_sum(torch.where(success, rewards.weight, 0.0), group.index, group.count.numel())
    wrong = n - group.rows(right)
    mean = 1.0 - choose_ratio(wrong, n, k)
    # One of the k is the wrong response itself: the others come from the n - 1, of which wrong - 1 are wrong.
    alone = choose_ratio(wrong - 1.0, n - 1.0, k - 1)
    return torch.where(success, 1.0 - mean, 1.0 - mean - alone)


def choose_ratio(a: Tensor, b: Tensor, k: int) -> Tensor:
    """C(a, k) / C(b, k) as a product, 0 where a < k."""
    ratio = torch.ones_like(a)
    for j in range(k):
        ratio = ratio * ((a - j).clamp(min=0.0) / (b - j).clamp(min=1.0))
    return ratio


def _greedy(rewards: Rewards, baseline: Baseline) -> Tensor:
    """ReMax, arXiv:2310.10505; 0 where the greedy response is unscorable."""
    del baseline
    responses, reward = rewards.responses, rewards.value
    if responses.greedy is None or not bool(responses.greedy.any()):
        raise MissingColumn.needed_for("is_greedy", "the greedy baseline (ReMax)")
    groups = int(responses.group.max()) + 1
    count = group_sum(responses.greedy.to(reward.dtype), responses.group, groups)
    if bool((count != 1)[responses.group[responses.trained]].any()):
        bad = int((count != 1).sum())
        msg = f"the greedy baseline needs exactly one greedy row per group; {bad} of {groups} groups differ."
        raise BadObjective(msg)
    total = group_sum(torch.where(responses.greedy, reward, 0.0), responses.group, groups)
    greedy = total[responses.group]
    return torch.where(greedy.isnan(), 0.0, reward - greedy)


BASELINES: dict[str, Callable[[Rewards, Baseline], Tensor]] = {
    "none": _none,
    "group_mean": _group_mean,
    "leave_one_out": _leave_one_out,
    "batch_mean": _batch_mean,
    "length_weighted": _length_weighted,
    "runner_up": _runner_up,
    "pass_at_k": _pass_at_k,
    "greedy": _greedy,
}
"""Every kind but ``gae`` and ``logged``, which do not subtract from a reward."""
