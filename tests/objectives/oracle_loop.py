"""A slow second opinion: advantage, weight and zeroed flag of every token, in loops over plain floats.

Written from the formulas alone: w = nu c A - beta nu h, with the closed forms of c and h.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from weight_cases import Row

from audit.objectives.objective import Objective
from audit.objectives.surrogates import Surrogate


@dataclass(frozen=True)
class TokenAnswer:
    """What the formulas give for one token.

    ``size`` is the sum of the absolute terms of the weight; ``sure`` is False where the advantage is 0 but
    for rounding, so that its sign says nothing.
    """

    advantage: float
    weight: float
    zeroed: bool
    size: float
    sure: bool


@dataclass(frozen=True)
class RowAnswer:
    """Advantage of a response; ``size`` is the magnitude of what was subtracted to get it."""

    advantage: float
    size: float


def kl_value(d: float, estimator: str) -> float:
    return {"k1": d, "k2": d * d / 2, "k3": math.exp(-d) - 1 + d}[estimator]


def kl_slope(d: float, estimator: str) -> float:
    return {"k1": 1.0, "k2": d, "k3": 1 - math.exp(-d)}[estimator]


def shaped(row: Row, objective: Objective) -> float:
    """Reward after clip and overlong penalty."""
    reward, shaping = row.reward, objective.shaping
    if math.isnan(reward):
        return reward
    if shaping.clip is not None:
        reward = min(max(reward, shaping.clip[0]), shaping.clip[1])
    reward = shaping.factor * reward + shaping.offset
    if shaping.overlong is not None:
        free = shaping.overlong.max_length - shaping.overlong.cache
        length = len(row.mask)
        if length > shaping.overlong.max_length:
            reward -= shaping.overlong.penalty
        elif length > free:
            reward -= shaping.overlong.penalty * ((length - free) / shaping.overlong.cache)
    return reward


def seen_by_baseline(row: Row, objective: Objective) -> float:
    """Shaped reward minus the KL in the reward."""
    reward, kl = shaped(row, objective), objective.kl.reward
    if kl is None or math.isnan(reward):
        return reward
    terms = [kl_value(o - f, kl.estimator) for o, f, m in zip(row.old, row.ref, row.mask, strict=True) if m]
    return reward - kl.coefficient * math.fsum(terms)


def pool_of(rows: list[Row], values: list[float], key: str) -> dict[int, list[tuple[float, float]]]:
    """(value, weight) of the scorable, trained rows, by ``key``."""
    pools: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for row, value in zip(rows, values, strict=True):
        pools[getattr(row, key)] += [(value, row.sample_weight)] if row.scorable and not row.greedy else []
    return pools


def mean(pool: list[tuple[float, float]]) -> float:
    return math.fsum(v * w for v, w in pool) / math.fsum(w for _, w in pool)


def std(pool: list[tuple[float, float]], ddof: int) -> float:
    centre = mean(pool)
    freedom = math.fsum(w for _, w in pool) - ddof
    if freedom < 1e-9:
        return math.inf
    return math.sqrt(math.fsum(w * (v - centre) ** 2 for v, w in pool) / freedom)


def dead(pool: list[tuple[float, float]]) -> bool:
    return len({v for v, _ in pool}) < 2


def advantages(rows: list[Row], objective: Objective) -> list[RowAnswer]:
    """Advantage of every response."""
    values = [seen_by_baseline(row, objective) for row in rows]
    groups = pool_of(rows, values, "group")
    batches = pool_of(rows, values, "generation")
    greedy = {row.group: value for row, value in zip(rows, values, strict=True) if row.greedy}
    answers = []
    for row, value in zip(rows, values, strict=True):
        kind = objective.baseline.kind
        if kind == "logged" and not row.greedy:
            answers.append(RowAnswer(row.advantage, 0.0))
            continue
        if row.greedy or not row.scorable:
            answers.append(RowAnswer(0.0, 0.0))
            continue
        group, batch = groups[row.group], batches[row.generation]
        if kind in ("group_mean", "leave_one_out") and dead(group):
            answers.append(RowAnswer(0.0, 0.0))
            continue
        if kind == "none":
            baseline = 0.0
        elif kind == "group_mean":
            baseline = mean(group)
        elif kind == "leave_one_out":
            others = math.fsum(w for _, w in group) - 1
            if others < 1e-9:
                answers.append(RowAnswer(0.0, 0.0))
                continue
            baseline = (math.fsum(v * w for v, w in group) - value) / others
        elif kind == "greedy":
            baseline = greedy[row.group]
        else:
            baseline = mean(batch)
        if objective.scale.kind == "none":
            divisor = 1.0
        else:
            pool = group if objective.scale.kind == "group_std" else batch
            divisor = 1.0
            if not dead(pool):
                divisor = std(pool, objective.scale.ddof) + objective.scale.epsilon
        largest = max(abs(v) for v, _ in [*group, *batch])
        advantage = (value - baseline) / divisor
        if objective.scale.reward_clip is not None:
            low, high = objective.scale.reward_clip
            advantage = min(max(advantage, low), high)
        answers.append(RowAnswer(advantage, (largest + abs(baseline)) / divisor))
    return answers


def removed(ratio: float, advantage: float, clip: Surrogate) -> bool:
    """Whether max/min have moved the surrogate off the ratio: flat in the ratio at this point."""
    if clip.kind != "ppo" or advantage == 0:
        return False
    low = -math.inf if clip.epsilon_low is None else 1 - clip.epsilon_low
    high = math.inf if clip.epsilon_high is None else 1 + clip.epsilon_high
    delta = math.inf if clip.delta is None else clip.delta
    dual = math.inf if clip.dual is None else clip.dual
    if advantage > 0:
        return ratio > high or ratio > delta
    return ratio < low or ratio > dual or (ratio > delta and ratio > high)


def token_factor(ratio: float, advantage: float, clip: Surrogate) -> float:
    """Closed form of c."""
    if clip.kind == "cispo":
        low = -math.inf if clip.epsilon_low is None else 1 - clip.epsilon_low
        high = math.inf if clip.epsilon_high is None else 1 + clip.epsilon_high
        return min(max(ratio, low), high)
    return 0.0 if removed(ratio, advantage, clip) else ratio


def loss_mask(row: Row, objective: Objective) -> list[bool]:
    """Tokens that take loss in the objective."""
    if objective.filter.mask_truncated and row.truncated:
        return [False] * len(row.mask)
    return list(row.mask)


def in_loss(rows: list[Row], objective: Objective) -> list[bool]:
    """Rows that enter the loss at all."""
    groups = pool_of(rows, [shaped(row, objective) for row in rows], "group")
    return [
        not row.greedy and not (objective.filter.dynamic_sampling and dead(groups[row.group])) for row in rows
    ]


def coefficients(rows: list[Row], objective: Objective) -> list[float]:
    """The aggregation coefficient nu of every response."""
    kept = in_loss(rows, objective)
    counts = [sum(loss_mask(row, objective)) if keep else 0 for row, keep in zip(rows, kept, strict=True)]
    scope = objective.aggregation.scope
    box = [row.micro if scope == "micro_batch" else row.update for row in rows]
    responses: dict[int, int] = defaultdict(int)
    tokens: dict[int, int] = defaultdict(int)
    for b, keep, count in zip(box, kept, counts, strict=True):
        responses[b] += keep
        tokens[b] += count
    answer = []
    for i, row in enumerate(rows):
        if not kept[i] or counts[i] == 0:
            answer.append(0.0)
            continue
        size, total = responses[box[i]], float(tokens[box[i]])
        if scope == "generation_batch":
            same = [j for j, other in enumerate(rows) if kept[j] and other.generation == row.generation]
            share = sum(rows[j].update == row.update for j in same) / len(same)
            total = sum(counts[j] for j in same) * share
        constant = objective.aggregation.constant
        nu = {
            "seq-mean-token-mean": lambda: 1 / (size * counts[i]),  # noqa: B023
            "token-mean": lambda: 1 / total,  # noqa: B023
            "seq-mean-token-sum": lambda: 1 / size,  # noqa: B023
            "seq-mean-token-sum-norm": lambda: 1 / (size * constant),  # noqa: B023
            "token-sum": lambda: 1.0,
            "token-sum-norm": lambda: 1 / constant,  # noqa: B023
        }[objective.aggregation.kind]()
        if scope == "micro_batch":
            here = zip(rows, kept, strict=True)
            nu /= len({other.micro for other, keep in here if keep and other.update == row.update})
        answer.append(nu)
    return answer


def log_ratios(row: Row, objective: Objective) -> list[float]:
    below = {"old": row.old, "sampler": row.sampler, "theta": row.theta}[objective.ratio.denominator]
    return [a - b for a, b in zip(row.theta, below, strict=True)]


def answers(rows: list[Row], objective: Objective) -> list[list[TokenAnswer]]:
    """Advantage, weight and zeroed flag of every token of every response."""
    result = []
    kept = in_loss(rows, objective)
    for row, keep, of_row, nu in zip(
        rows, kept, advantages(rows, objective), coefficients(rows, objective), strict=True
    ):
        mask = loss_mask(row, objective)
        live = [t for t in range(len(mask)) if mask[t] and keep]
        logs = log_ratios(row, objective)
        total = math.fsum(logs[t] for t in live)
        level, clip = objective.ratio.level, objective.clip
        ratio: dict[int, float] = {}
        for t in live:
            exponent = {"token": logs[t], "sequence": total / len(live), "product": total}[level]
            ratio[t] = math.exp(exponent)
        by_token = objective.baseline.kind == "logged" and len(row.token_advantage) > 0
        advantage = [row.token_advantage[t] if by_token else of_row.advantage for t in range(len(mask))]
        policy = {t: nu * token_factor(ratio[t], advantage[t], clip) * advantage[t] for t in live}
        bulk = {t: abs(policy[t]) + nu * ratio[t] * of_row.size for t in live}
        if clip.kind != "cispo" and level != "token" and live:
            # Geometric: d s / d log pi_t = s / L. Product: one term per response, d P / d log pi_t = P.
            whole, heavy = math.fsum(policy.values()) / len(live), math.fsum(bulk.values()) / len(live)
            policy = dict.fromkeys(live, whole)
            bulk = dict.fromkeys(live, heavy)
        kl = dict.fromkeys(live, 0.0)
        loss_kl = objective.kl.loss
        if loss_kl is not None:
            name, beta = loss_kl.estimator, loss_kl.coefficient
            ds = {t: row.theta[t] - row.ref[t] for t in live}
            slope = {t: kl_slope(ds[t], name) for t in live}
            value = {t: kl_value(ds[t], name) for t in live}
            if loss_kl.gradient == "pathwise":
                h = slope
                rough = {t: 1 + abs(ds[t]) + math.exp(-ds[t]) for t in live}
            else:
                spread = {
                    "token": lambda t: ratio[t] * value[t],  # noqa: B023
                    "sequence": lambda t: math.fsum(ratio[s] * value[s] for s in live) / len(live),  # noqa: B023
                    "product": lambda t: math.fsum(ratio[s] * value[s] for s in live),  # noqa: B023
                }[level]
                h = {t: ratio[t] * slope[t] + spread(t) for t in live}
                most = max((ratio[t] * (2 + 2 * abs(ds[t]) + math.exp(-ds[t])) for t in live), default=0.0)
                rough = dict.fromkeys(live, most * len(live))
            kl = {t: -beta * nu * h[t] for t in live}
            bulk = {t: bulk[t] + beta * nu * rough[t] for t in live}
        result.append(
            [
                TokenAnswer(
                    advantage[t],
                    policy[t] + kl[t] if t in ratio else 0.0,
                    t in ratio and removed(ratio[t], advantage[t], clip),
                    bulk[t] if t in ratio else 0.0,
                    by_token or of_row.size == 0 or abs(of_row.advantage) > 1e-12 * of_row.size,
                )
                for t in range(len(mask))
            ]
        )
    return result
