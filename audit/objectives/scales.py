"""Scales: what the centred reward is divided by, one function per kind."""

from __future__ import annotations

import math
from collections.abc import Callable

from audit.errors import BadObjective
from audit.objectives.arrays import Array, as_float, at_least, group_sum, library, silent
from audit.objectives.baselines import Rewards, choose_ratio
from audit.objectives.parts import Baseline, Scale


@silent
def scaled(centred: Array, rewards: Rewards, scale: Scale, baseline: Baseline) -> Array:
    """Centred reward over (divisor + epsilon), shape (R,), float64.

    Not divided where the divisor is NaN: no two rewards differ, or nothing is left to estimate it from.
    """
    if scale.kind == "none":
        return centred
    xp = library(centred)
    divisor = SCALES[scale.kind](rewards, scale, baseline)
    if scale.kind == "group_mean":
        # A group mean of 0 or less turns the sign or blows up; MaxRL gives such a group nothing.
        usable = divisor + scale.epsilon > 0
        return xp.where(usable, centred / xp.where(usable, divisor + scale.epsilon, 1.0), 0.0)
    return xp.where(xp.isnan(divisor), centred, centred / (divisor + scale.epsilon))


def _group_std(rewards: Rewards, scale: Scale, baseline: Baseline) -> Array:
    del baseline
    pool = rewards.group
    return library(pool.count).where(pool.rows(pool.dead), math.nan, pool.rows(pool.std(scale.ddof)))


def _batch_std(rewards: Rewards, scale: Scale, baseline: Baseline) -> Array:
    del baseline
    pool = rewards.batch
    return library(pool.count).where(pool.rows(pool.dead), math.nan, pool.rows(pool.std(scale.ddof)))


def _leave_one_out_std(rewards: Rewards, scale: Scale, baseline: Baseline) -> Array:
    """NeMo-RL, algorithms/utils.py ``calculate_baseline_and_std_per_prompt``."""
    del baseline
    count, _, squares = rewards.group.others()
    freedom = count - scale.ddof
    xp = library(squares)
    std = xp.sqrt(squares / at_least(freedom, 1e-9))
    return xp.where((freedom > 1e-9) & (squares > 0), std, math.nan)


def _group_mean(rewards: Rewards, scale: Scale, baseline: Baseline) -> Array:
    """MaxRL, arXiv:2602.02710; prime-rl 0.8.0 orchestrator/algo/max_rl.py."""
    del scale, baseline
    return rewards.group.rows(rewards.group.mean)


def _alive_share(rewards: Rewards, scale: Scale, baseline: Baseline) -> Array:
    """GPG's 1 / alpha, arXiv:2504.02546: alpha = B / (B - responses of dead groups)."""
    del scale, baseline
    alive = ~rewards.group.rows(rewards.group.dead) & (rewards.weight > 0)
    batch = rewards.batch
    some = batch.rows(group_sum(as_float(alive), batch.index, batch.count.shape[0])) > 0
    return library(batch.count).where(some, _share_of_batch(rewards, alive), math.nan)


def _nonzero_share(rewards: Rewards, scale: Scale, baseline: Baseline) -> Array:
    """verl 0.9.1 ``gpg``: alpha = B / number of nonzero rewards, at least 1."""
    del scale, baseline
    return _share_of_batch(rewards, rewards.value != 0)


def _share_of_batch(rewards: Rewards, chosen: Array) -> Array:
    pool = rewards.batch
    counted = library(rewards.weight).where(chosen & (rewards.weight > 0), rewards.weight, 0.0)
    total = at_least(group_sum(counted, pool.index, pool.count.shape[0]), 1.0)
    return pool.rows(total / at_least(pool.count, 1.0))


def _pass_at_k_std(rewards: Rewards, scale: Scale, baseline: Baseline) -> Array:
    """sqrt(R (1 - R)) with R the group's pass@k; NaN where every draw of k succeeds, or none can."""
    del scale
    if baseline.k is None:
        # Reached where an objective is mixed from the parts of two: no declaration has it.
        msg = "scale.kind 'pass_at_k_std' needs the k of baseline.kind 'pass_at_k'."
        raise BadObjective(msg)
    xp, pool, k = library(rewards.value), rewards.group, baseline.k
    success = xp.where((rewards.value > 0) & (rewards.weight > 0), rewards.weight, 0.0)
    wrong = pool.count - group_sum(success, pool.index, pool.count.shape[0])
    mean = 1.0 - choose_ratio(wrong, pool.count, k)
    variance = mean * (1.0 - mean)
    return pool.rows(xp.where(variance > 0, xp.sqrt(variance), math.nan))


SCALES: dict[str, Callable[[Rewards, Scale, Baseline], Array]] = {
    "group_std": _group_std,
    "batch_std": _batch_std,
    "leave_one_out_std": _leave_one_out_std,
    "group_mean": _group_mean,
    "alive_share": _alive_share,
    "nonzero_share": _nonzero_share,
    "pass_at_k_std": _pass_at_k_std,
}
