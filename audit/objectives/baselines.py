"""Baselines: what is subtracted from the reward, one function per kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from audit.errors import BadObjective, MissingColumn
from audit.objectives.arrays import Array, as_float, at_least, group_max, group_sum, library, silent
from audit.objectives.batch import Responses
from audit.objectives.parts import Baseline
from audit.objectives.pools import SLACK, Pool


@dataclass(frozen=True)
class Rewards:
    """The reward that a baseline sees, shape (R,), with its statistics over groups and over batches."""

    value: Array
    weight: Array
    """0 for rows that are unscorable or greedy, else 1 / rows of the trajectory."""
    group: Pool
    batch: Pool
    responses: Responses

    @classmethod
    def of(cls, responses: Responses, value: Array, weight: Array) -> Rewards:
        """Pool ``value``, shape (R,), over the groups and generation batches of ``responses``."""
        group = Pool.of(value, responses.group, weight)
        return cls(value, weight, group, Pool.of(value, responses.generation_batch, weight), responses)


@silent
def centred(rewards: Rewards, baseline: Baseline) -> Array:
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
        value = library(value).where(alone, rewards.value, value)
    return value


def _none(rewards: Rewards, baseline: Baseline) -> Array:
    del baseline
    return rewards.value


def _group_mean(rewards: Rewards, baseline: Baseline) -> Array:
    del baseline
    group = rewards.group
    return library(rewards.value).where(group.rows(group.dead), 0.0, rewards.value - group.rows(group.mean))


def _leave_one_out(rewards: Rewards, baseline: Baseline) -> Array:
    count = rewards.group.rows(rewards.group.count)
    several = library(count).where(count > 1.0 + SLACK, count / (count - 1.0), 0.0)
    return _group_mean(rewards, baseline) * several


def _batch_mean(rewards: Rewards, baseline: Baseline) -> Array:
    del baseline
    return rewards.value - rewards.batch.rows(rewards.batch.mean)


def _length_weighted(rewards: Rewards, baseline: Baseline) -> Array:
    """OPO, arXiv:2505.23585: the variance-optimal baseline if the squared score norm grows with length."""
    del baseline
    responses = rewards.responses
    weight = rewards.weight * as_float(responses.loss_tokens)
    pool = Pool.of(rewards.value, responses.group, weight)
    dead = rewards.group.rows(rewards.group.dead)
    return library(rewards.value).where(dead, 0.0, rewards.value - pool.rows(pool.mean))


def _runner_up(rewards: Rewards, baseline: Baseline) -> Array:
    """Pass@k as best minus second best, arXiv:2503.19595 (verl 0.9.1 ``grpo_passk``); ties leave nothing."""
    del baseline
    xp, group = library(rewards.value), rewards.group
    counted = rewards.weight > 0
    best = counted & (rewards.value == group.rows(group.high))
    ties = group.rows(group_sum(xp.where(best, rewards.weight, 0.0), group.index, group.count.shape[0]))
    rest = xp.where(counted & ~best, rewards.value, -math.inf)
    second = group_max(rest, group.index, group.count.shape[0])
    lead = rewards.value - group.rows(second)
    return xp.where(best & (ties <= 1.0 + SLACK) & xp.isfinite(lead), lead, 0.0)


def _pass_at_k(rewards: Rewards, baseline: Baseline) -> Array:
    """Analytic pass@k, arXiv:2508.10751: a response succeeds where its reward is positive."""
    assert baseline.k is not None
    xp, group, k = library(rewards.value), rewards.group, baseline.k
    success = (rewards.value > 0) & (rewards.weight > 0)
    n = group.rows(group.count)
    if bool((n[rewards.weight > 0] < k - SLACK).any()):
        msg = f"pass@k with k = {k} needs at least {k} responses in every group."
        raise BadObjective(msg)
    right = group_sum(xp.where(success, rewards.weight, 0.0), group.index, group.count.shape[0])
    wrong = n - group.rows(right)
    mean = 1.0 - choose_ratio(wrong, n, k)
    # One of the k is the wrong response itself: the others come from the n - 1, of which wrong - 1 are wrong.
    alone = choose_ratio(wrong - 1.0, n - 1.0, k - 1)
    return xp.where(success, 1.0 - mean, 1.0 - mean - alone)


def choose_ratio(a: Array, b: Array, k: int) -> Array:
    """C(a, k) / C(b, k) as a product, 0 where a < k."""
    ratio = library(a).ones_like(a)
    for j in range(k):
        ratio = ratio * (at_least(a - j, 0.0) / at_least(b - j, 1.0))
    return ratio


def _greedy(rewards: Rewards, baseline: Baseline) -> Array:
    """ReMax, arXiv:2310.10505; 0 where the greedy response is unscorable."""
    del baseline
    xp, responses, reward = library(rewards.value), rewards.responses, rewards.value
    if responses.greedy is None or not bool(responses.greedy.any()):
        raise MissingColumn.needed_for("is_greedy", "the greedy baseline (ReMax)")
    groups = int(responses.group.max()) + 1
    count = group_sum(as_float(responses.greedy), responses.group, groups)
    if bool((count != 1)[responses.group[responses.trained]].any()):
        bad = int((count != 1).sum())
        msg = f"the greedy baseline needs exactly one greedy row per group; {bad} of {groups} groups differ."
        raise BadObjective(msg)
    total = group_sum(xp.where(responses.greedy, reward, 0.0), responses.group, groups)
    greedy = total[responses.group]
    return xp.where(xp.isnan(greedy), 0.0, reward - greedy)


BASELINES: dict[str, Callable[[Rewards, Baseline], Array]] = {
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
