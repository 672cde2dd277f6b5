"""Rewards to advantages of responses, in loops over plain floats: shaping, baseline, scale.

Written from the formulas alone. The advantage of a token, and its weight: :mod:`oracle_advantages` and
:mod:`oracle_loop`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

from weight_cases import Row

from audit.objectives.objective import Objective, RewardKL

Weighted = list[tuple[float, float]]
"""(value, weight) of the responses of a pool."""


@dataclass(frozen=True)
class RowAnswer:
    """Advantage of a response; ``size`` is the magnitude of what was subtracted to get it."""

    advantage: float
    size: float


def kl_value(d: float, estimator: str) -> float:
    return {"k1": d, "k2": d * d / 2, "k3": math.exp(-d) - 1 + d, "abs": abs(d)}[estimator]


def kl_slope(d: float, estimator: str) -> float:
    sign = (d > 0) - (d < 0)
    return {"k1": 1.0, "k2": d, "k3": 1 - math.exp(-d), "abs": float(sign)}[estimator]


def combined(row: Row, objective: Objective) -> float:
    """The reward column, or the weighted sum of the components that apply."""
    weights = objective.shaping.weights
    if weights is None:
        return row.reward
    parts = [
        weight * row.components[name]
        for name, weight in weights.items()
        if not math.isnan(row.components[name])
    ]
    return math.fsum(parts) if parts else math.nan


def shaped(row: Row, objective: Objective) -> float:
    """Reward after combination, clip and overlong penalty."""
    reward, shaping = combined(row, objective), objective.shaping
    if math.isnan(reward):
        return reward
    if shaping.clip is not None:
        reward = min(max(reward, shaping.clip[0]), shaping.clip[1])
    reward = shaping.factor * reward + shaping.offset
    if shaping.overlong is not None:
        free = shaping.overlong.max_length - shaping.overlong.cache
        length = len(row.mask)
        if shaping.overlong.capped and length > shaping.overlong.max_length:
            reward -= shaping.overlong.penalty
        elif length > free:
            reward -= shaping.overlong.penalty * ((length - free) / shaping.overlong.cache)
    return reward


def token_kl(row: Row, kl: RewardKL) -> list[float]:
    """k(old, ref), or k(sampler, ref), of every token; 0 where masked."""
    above = {"old": row.old, "sampler": row.sampler}[kl.policy]
    return [
        kl_value(o - f, kl.estimator) if m else 0.0 for o, f, m in zip(above, row.ref, row.mask, strict=True)
    ]


def seen_by_baseline(row: Row, objective: Objective) -> float:
    """Shaped reward minus the KL that is paid before the baseline."""
    reward, kl = shaped(row, objective), objective.kl.reward
    if kl is None or kl.stage != "before_baseline" or math.isnan(reward):
        return reward
    return reward - kl.coefficient * math.fsum(token_kl(row, kl))


def pool_of(rows: list[Row], values: list[float], key: str) -> dict[int, Weighted]:
    """(value, weight) of the scorable, trained rows, by ``key``."""
    pools: dict[int, Weighted] = defaultdict(list)
    for row, value in zip(rows, values, strict=True):
        use = not math.isnan(value) and not row.greedy
        pools[getattr(row, key)] += [(value, row.sample_weight)] if use else []
    return pools


def count(pool: Weighted) -> float:
    return math.fsum(w for _, w in pool)


def mean(pool: Weighted) -> float:
    return math.fsum(v * w for v, w in pool) / count(pool)


def std(pool: Weighted, ddof: int) -> float:
    centre = mean(pool)
    freedom = count(pool) - ddof
    if freedom < 1e-9:
        return math.inf
    return math.sqrt(max(math.fsum(w * (v - centre) ** 2 for v, w in pool), 0.0) / freedom)


def dead(pool: Weighted) -> bool:
    return len({v for v, _ in pool}) < 2


def without(pool: Weighted, value: float) -> Weighted:
    """The other samples: the pool less one whole sample of this value."""
    of_value: dict[float, float] = defaultdict(float)
    for v, w in [*pool, (value, -1.0)]:
        of_value[v] += w
    return [(v, w) for v, w in of_value.items() if abs(w) > 1e-9]


def successes(pool: Weighted) -> tuple[int, int]:
    """How many samples there are, and how many of them fail."""
    return round(count(pool)), round(math.fsum(w for v, w in pool if not v > 0))


def pass_at_k(n: int, failed: int, k: int, *, holding: int | None = None) -> float:
    """Share of the k-subsets of n samples, the first ``failed`` of which fail, that hold a success.

    With ``holding`` only of those subsets that hold this sample.
    """
    subsets = [s for s in combinations(range(n), k) if holding is None or holding in s]
    return sum(any(i >= failed for i in s) for s in subsets) / len(subsets)


def against_group(value: float, pool: Weighted, kind: str, k: int | None) -> tuple[float, float]:
    """Value minus baseline for the kinds that look at the group alone, and the baseline's size."""
    if kind == "group_mean":
        return value - mean(pool), abs(mean(pool))
    if kind == "leave_one_out":
        others = count(pool) - 1
        if others < 1e-9:
            return 0.0, 0.0
        baseline = (math.fsum(v * w for v, w in pool) - value) / others
        return value - baseline, abs(baseline)
    if kind == "runner_up":
        best = max(v for v, _ in pool)
        tied = math.fsum(w for v, w in pool if v == best)
        if value < best or tied > 1 + 1e-9:
            return 0.0, 0.0
        second = max(v for v, _ in pool if v < best)
        return best - second, abs(second)
    assert kind == "pass_at_k"
    n, failed = successes(pool)
    own = pass_at_k(n, failed, k, holding=n - 1 if value > 0 else 0)
    return own - pass_at_k(n, failed, k), 1.0


def row_advantages(rows: list[Row], values: list[float], objective: Objective) -> list[RowAnswer]:
    """Reward ``values`` through baseline and scale; 0 for greedy and unscorable responses."""
    base, scale = objective.baseline, objective.scale
    groups, batches = pool_of(rows, values, "group"), pool_of(rows, values, "generation")
    greedy = {row.group: v for row, v in zip(rows, values, strict=True) if row.greedy}
    kind = base.kind
    answers = []
    for row, value in zip(rows, values, strict=True):
        if row.greedy or math.isnan(value):
            answers.append(RowAnswer(0.0, 0.0))
            continue
        group, batch = groups[row.group], batches[row.generation]
        alone = count(group) < 1 + 1e-9
        if kind in ("none", "greedy", "batch_mean"):
            baseline = {"none": 0.0, "greedy": greedy.get(row.group, 0.0), "batch_mean": mean(batch)}[kind]
            baseline = value if math.isnan(baseline) else baseline  # nothing to compare with: no advantage
            centred, size = value - baseline, abs(baseline)
        elif alone and base.singleton == "raw":
            centred, size = value, 0.0
        elif dead(group):
            centred, size = 0.0, 0.0
        elif kind == "length_weighted":
            members = [
                (v, r.sample_weight * sum(r.mask))
                for r, v in zip(rows, values, strict=True)
                if r.group == row.group and not r.greedy and not math.isnan(v)
            ]
            baseline = mean(members) if count(members) > 0 else 0.0
            centred, size = value - baseline, abs(baseline)
        else:
            centred, size = against_group(value, group, kind, base.k)
        divisor = divisor_of(row, value, rows, values, groups, batch, objective)
        largest = max(abs(v) for v, _ in [*group, *batch])
        if centred == 0.0 and size == 0.0:  # by rule, not by subtraction
            answers.append(RowAnswer(0.0, 0.0))
            continue
        if divisor is None:
            divisor = 1.0
        elif scale.kind == "group_mean" and divisor + scale.epsilon <= 0:
            centred, size, divisor = 0.0, 0.0, 1.0
        else:
            divisor += scale.epsilon
        answers.append(RowAnswer(centred / divisor, (largest + size) / divisor))
    return answers


def divisor_of(
    row: Row,
    value: float,
    rows: list[Row],
    values: list[float],
    groups: dict[int, Weighted],
    batch: Weighted,
    objective: Objective,
) -> float | None:
    """What divides, without epsilon; None: nothing does."""
    scale, group = objective.scale, groups[row.group]
    if scale.kind == "none":
        return None
    if scale.kind in ("group_std", "batch_std"):
        pool = group if scale.kind == "group_std" else batch
        return None if dead(pool) else std(pool, scale.ddof)
    if scale.kind == "leave_one_out_std":
        others = without(group, value)
        if dead(others) or count(others) - scale.ddof < 1e-9:
            return None
        return std(others, scale.ddof)
    if scale.kind == "group_mean":
        return mean(group)
    if scale.kind == "pass_at_k_std":
        n, failed = successes(group)
        R = pass_at_k(n, failed, objective.baseline.k)
        return None if R in (0.0, 1.0) else math.sqrt(R * (1 - R))
    here = [
        (r, v, r.sample_weight)
        for r, v in zip(rows, values, strict=True)
        if r.generation == row.generation and not r.greedy and not math.isnan(v)
    ]
    if scale.kind == "alive_share":
        chosen = math.fsum(w for r, _, w in here if not dead(groups[r.group]))
        return chosen / count(batch) if chosen > 0 else None
    return max(math.fsum(w for _, v, w in here if v != 0), 1.0) / count(batch)


def response_advantages(rows: list[Row], objective: Objective) -> list[RowAnswer]:
    """Advantage of every response before a KL of tokens, whitening and clip."""
    if objective.baseline.kind == "logged":
        return [RowAnswer(0.0 if row.greedy else row.advantage, 0.0) for row in rows]
    if objective.shaping.per_component:
        parts = [
            [
                RowAnswer(weight * a.advantage, abs(weight) * a.size)
                for a in row_advantages(rows, [row.components[name] for row in rows], objective)
            ]
            for name, weight in objective.shaping.weights.items()
        ]
        made = [
            RowAnswer(math.fsum(a.advantage for a in of_row), math.fsum(a.size for a in of_row))
            for of_row in zip(*parts, strict=True)
        ]
    else:
        made = row_advantages(rows, [seen_by_baseline(row, objective) for row in rows], objective)
    if objective.scale.reward_clip is not None:
        low, high = objective.scale.reward_clip
        made = [RowAnswer(min(max(a.advantage, low), high), a.size) for a in made]
    return made
