"""Which rows and tokens count, and for how much, in loops over plain floats: filters, corrections, nu."""

from __future__ import annotations

import math
from collections import defaultdict

import oracle_advantages
import oracle_rewards
from weight_cases import Row

from audit.objectives.corrections import Correction
from audit.objectives.objective import Aggregation, Objective


def loss_mask(row: Row, objective: Objective) -> list[bool]:
    """Tokens that take loss in the objective."""
    if objective.filter.mask_truncated and row.truncated:
        return [False] * len(row.mask)
    return list(row.mask)


def in_loss(rows: list[Row], objective: Objective) -> list[bool]:
    """Rows that enter the loss at all."""
    groups = oracle_rewards.pool_of(rows, [oracle_rewards.shaped(row, objective) for row in rows], "group")
    kept = []
    tables = oracle_advantages.of_tokens(rows, objective)
    of_rows = oracle_advantages.of_rows(rows, objective)
    for row, cells, whole in zip(rows, tables, of_rows, strict=True):
        keep = not row.greedy
        if objective.filter.dynamic_sampling and oracle_rewards.dead(groups[row.group]):
            keep = False
        if objective.filter.zero_advantage and keep:
            keep = any(cells[t][0] != 0 for t, m in enumerate(row.mask) if m)
            if not any(row.mask) and not oracle_advantages.varies(objective):
                keep = whole[0] != 0
        kept.append(keep)
    return kept


def correction_of(row: Row, advantage: list[float], correction: Correction) -> list[float]:
    """Weight that a correction gives to every token of a response; 1 where masked."""
    live = [t for t, m in enumerate(row.mask) if m]
    above = {"old": row.old, "theta": row.theta}[correction.numerator]
    below = {"old": row.old, "sampler": row.sampler}[correction.against]
    u = {t: 0.0 if math.isnan(below[t]) else above[t] - below[t] for t in live}
    total = math.fsum(u.values())
    low = -math.inf if correction.low is None else correction.low
    high = math.inf if correction.high is None else correction.high
    out = [1.0] * len(row.mask)
    for t in live:
        log = {"token": u[t], "product": total, "sequence": total / len(live)}[correction.level]
        weight = math.exp(log)
        inside = low <= weight <= high or (correction.keep_nonnegative and advantage[t] >= 0)
        if correction.action == "truncate":
            out[t] = min(max(weight, low), high)
        elif correction.action == "mask":
            out[t] = weight if inside else 0.0
        else:
            out[t] = 1.0 if inside else 0.0
    return out


def corrections(rows: list[Row], objective: Objective) -> list[list[list[float]]]:
    """Weight of every correction at every token."""
    tables = oracle_advantages.of_tokens(rows, objective)
    return [
        [correction_of(row, [a for a, _ in cells], c) for c in objective.ratio.corrections]
        for row, cells in zip(rows, tables, strict=True)
    ]


def counted(rows: list[Row], objective: Objective) -> list[int]:
    """Tokens of every response that count in the normaliser."""
    kept, weights = in_loss(rows, objective), corrections(rows, objective)
    counts = []
    for row, keep, of_row in zip(rows, kept, weights, strict=True):
        mask = loss_mask(row, objective)
        for correction, of_token in zip(objective.ratio.corrections, of_row, strict=True):
            if correction.leaves_denominator:
                mask = [m and w != 0 for m, w in zip(mask, of_token, strict=True)]
        counts.append(sum(mask) if keep else 0)
    return counts


def coefficients(
    rows: list[Row], objective: Objective, aggregation: Aggregation | None = None
) -> list[float]:
    """The aggregation coefficient nu of every response."""
    how = aggregation or objective.aggregation
    kept, counts = in_loss(rows, objective), counted(rows, objective)
    box = [row.micro if how.scope == "micro_batch" else row.update for row in rows]
    size: dict[int, int] = defaultdict(int)
    tokens: dict[int, int] = defaultdict(int)
    prompt: dict[tuple[int, int], int] = defaultdict(int)
    longest: dict[int, int] = defaultdict(int)
    for b, row, keep, n in zip(box, rows, kept, counts, strict=True):
        if keep:
            size[b] += how.rows == "all" or n > 0
            tokens[b] += n
            prompt[b, row.group] += n
            longest[b] = max(longest[b], len(row.mask))
    answer = []
    for i, row in enumerate(rows):
        if not kept[i] or not any(loss_mask(row, objective)):
            answer.append(0.0)
            continue
        b = box[i]
        N = float(max(tokens[b], 1))
        if how.scope == "generation_batch":
            same = [j for j, other in enumerate(rows) if kept[j] and other.generation == row.generation]
            share = sum(rows[j].update == row.update for j in same) / len(same)
            N = (max(sum(counts[j] for j in same), 1) + how.epsilon) * share - how.epsilon
        B, L, G, e = max(size[b], 1), max(counts[i], 1), max(prompt[b, row.group], 1), how.epsilon
        P = len({group for a, group in prompt if a == b})
        C = max(longest[b], 1) if how.constant == "longest" else how.constant
        nu = {
            "seq-mean-token-mean": lambda: 1 / (B * (L + e)),  # noqa: B023
            "token-mean": lambda: 1 / (N + e),  # noqa: B023
            "prompt-mean-token-mean": lambda: 1 / (P * (G + e)),  # noqa: B023
            "seq-mean-token-sum": lambda: 1 / B,  # noqa: B023
            "seq-mean-token-sum-norm": lambda: 1 / (B * C),  # noqa: B023
            "token-sum": lambda: 1.0,
            "token-sum-norm": lambda: 1 / C,  # noqa: B023
        }[how.kind]()
        if how.scope == "micro_batch":
            here = zip(rows, kept, strict=True)
            nu /= len({other.micro for other, keep in here if keep and other.update == row.update})
        answer.append(nu * how.factor)
    return answer


def entropy_mask(rows: list[Row], live: list[list[int]], objective: Objective) -> list[set[int]]:
    """Tokens at or above the quantile 1 - share of their micro-batch."""
    share = objective.filter.top_entropy
    if share == 1.0:
        return [set(of_row) for of_row in live]
    pools: dict[int, list[float]] = defaultdict(list)
    for row, of_row in zip(rows, live, strict=True):
        pools[row.micro] += [row.entropy[t] for t in of_row]
    bounds = {}
    for micro, pool in pools.items():
        place = (1 - share) * (len(pool) - 1) if pool else 0.0
        ordered = sorted(pool) or [0.0]
        lower, upper = ordered[math.floor(place)], ordered[math.ceil(place)]
        bounds[micro] = lower + (upper - lower) * (place - math.floor(place))
    return [
        {t for t in of_row if row.entropy[t] >= bounds[row.micro]}
        for row, of_row in zip(rows, live, strict=True)
    ]
