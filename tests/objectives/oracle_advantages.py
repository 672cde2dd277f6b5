"""Advantage of every token, in loops over plain floats: KL paid by token, GAE, whitening, clip."""

from __future__ import annotations

import math

import oracle_rewards as rewards
from weight_cases import Row

from audit.objectives.objective import Objective, Whiten

Cell = tuple[float, float]
"""An advantage, and the magnitude of what was subtracted to get it."""


def gae(row: Row, earned: list[float], gamma: float, lam: float) -> list[float]:
    """Sum over later loss tokens of (gamma lam)^j delta, written out from its definition."""
    live = [t for t, on in enumerate(row.mask) if on]
    value = [row.value[t] for t in live] + [0.0]
    delta = [earned[t] + gamma * value[j + 1] - value[j] for j, t in enumerate(live)]
    out = [0.0] * len(row.mask)
    for j, t in enumerate(live):
        out[t] = math.fsum((gamma * lam) ** (m - j) * delta[m] for m in range(j, len(live)))
    return out


def varies(objective: Objective) -> bool:
    """Whether tokens of one response have advantages of their own."""
    kl = objective.kl.reward
    by_token = kl is not None and kl.form != "sum" and objective.baseline.kind != "logged"
    return objective.baseline.kind == "gae" or by_token


def raw_tokens(rows: list[Row], objective: Objective) -> list[list[Cell]]:
    """Advantage of every token before whitening and clip; 0 where masked."""
    kl, base = objective.kl.reward, objective.baseline
    if base.kind == "logged":
        return [
            [
                ((row.token_advantage[t] if row.token_advantage else row.advantage), 0.0) if m else (0.0, 0.0)
                for t, m in enumerate(row.mask)
            ]
            for row in rows
        ]
    costs = [[0.0] * len(row.mask) for row in rows]
    if kl is not None and kl.stage == "after_scale":
        costs = [[kl.coefficient * k for k in rewards.token_kl(row, kl)] for row in rows]
    tables = []
    whole = [rewards.RowAnswer(0.0, 0.0)] * len(rows)
    if base.kind != "gae":
        whole = rewards.response_advantages(rows, objective)
    for row, cost, of_row in zip(rows, costs, whole, strict=True):
        n = len(row.mask)
        reward = rewards.seen_by_baseline(row, objective)
        if row.greedy or math.isnan(reward):
            tables.append([(0.0, 0.0)] * n)
            continue
        live = [t for t in range(n) if row.mask[t]]
        if kl is None or kl.stage != "after_scale":
            paid = [0.0] * n
        elif kl.form == "sum":
            paid = [math.fsum(cost)] * n
        elif kl.form == "to_go":
            paid = [math.fsum(cost[t:]) for t in range(n)]
        elif kl.form == "token":
            paid = cost
        else:
            pool = [
                c
                for other, of_other in zip(rows, costs, strict=True)
                if other.generation == row.generation and not other.greedy
                for c, m in zip(of_other, other.mask, strict=True)
                if m
            ]
            paid = [c - math.fsum(pool) / max(len(pool), 1) for c in cost]
        if base.kind == "gae":
            earned = [0.0] * n
            for t in live:
                earned[t] = (reward if t == live[-1] else 0.0) - (paid[t])
            size = abs(reward) + math.fsum(abs(c) for c in cost) + sum(abs(row.value[t]) for t in live)
            values = gae(row, earned, base.gamma, base.lam)
            tables.append([(a if m else 0.0, size) for a, m in zip(values, row.mask, strict=True)])
            continue
        size = of_row.size + math.fsum(abs(c) for c in cost)
        if kl is not None and kl.form == "centred":
            size += max((abs(c) for of_other in costs for c in of_other), default=0.0)
        tables.append([(of_row.advantage - paid[t] if row.mask[t] else 0.0, size) for t in range(n)])
    return tables


def finish(value: Cell, moments: tuple[float, float, float], objective: Objective) -> Cell:
    """Whiten with (mean, variance, magnitude of the values), then clip."""
    whiten, clip = objective.scale.whiten, objective.scale.clip
    a, size = value
    if whiten is not None:
        centre, variance, magnitude = moments
        divisor = divisor_of(variance, whiten)
        a = (a - (centre if whiten.centre else 0.0)) / divisor
        size = (size + magnitude) / divisor
    if clip is not None:
        a = min(max(a, clip[0]), clip[1])
    return a, size


def divisor_of(variance: float, whiten: Whiten) -> float:
    """What whitening divides by; 1 where no spread can be estimated."""
    if math.isnan(variance) or variance == whiten.epsilon == 0.0:
        return 1.0
    if whiten.epsilon_in == "std":
        return math.sqrt(variance) + whiten.epsilon
    if whiten.epsilon_in == "variance":
        return math.sqrt(variance + whiten.epsilon)
    return math.sqrt(max(variance, whiten.epsilon))


def all_moments(rows: list[Row], objective: Objective) -> dict[int, tuple[float, float, float]]:
    """Mean, variance and magnitude of what whitening pools, by generation batch."""
    whiten = objective.scale.whiten
    made = {row.generation: (0.0, 1.0, 0.0) for row in rows}
    if whiten is None:
        return made
    raw, whole = raw_tokens(rows, objective), whole_rows(rows, objective)
    groups = rewards.pool_of(rows, [rewards.shaped(row, objective) for row in rows], "group")
    for generation in made:
        pool: list[tuple[float, float]] = []
        for row, of_row, cells in zip(rows, whole, raw, strict=True):
            dropped = objective.filter.dynamic_sampling and rewards.dead(groups[row.group])
            if row.generation != generation or not usable(row, objective) or dropped:
                continue
            if whiten.level == "sequence":
                pool.append((of_row[0], row.sample_weight))
            elif not (objective.filter.mask_truncated and row.truncated):
                pool += [(cells[t][0], 1.0) for t, m in enumerate(row.mask) if m]
        n = rewards.count(pool)
        centre = rewards.mean(pool) if n else 0.0
        squares = math.fsum(w * (v - centre) ** 2 for v, w in pool)
        variance = squares / (n - whiten.ddof) if n - whiten.ddof > 1e-9 else math.nan
        made[generation] = centre, variance, max((abs(v) for v, _ in pool), default=0.0)
    return made


def usable(row: Row, objective: Objective) -> bool:
    """Whether the response has an advantage at all."""
    return not row.greedy and (
        objective.baseline.kind == "logged" or not math.isnan(rewards.combined(row, objective))
    )


def of_tokens(rows: list[Row], objective: Objective) -> list[list[Cell]]:
    """Finished advantage of every token; those of masked tokens mean nothing."""
    moments = all_moments(rows, objective)
    return [
        [
            finish(c, moments[row.generation], objective) if usable(row, objective) else (0.0, 0.0)
            for c in cells
        ]
        for row, cells in zip(rows, raw_tokens(rows, objective), strict=True)
    ]


def of_rows(rows: list[Row], objective: Objective) -> list[Cell]:
    """Finished advantage of every response, where its tokens share one."""
    moments = all_moments(rows, objective)
    return [
        finish(c, moments[row.generation], objective) if usable(row, objective) else (0.0, 0.0)
        for row, c in zip(rows, whole_rows(rows, objective), strict=True)
    ]


def whole_rows(rows: list[Row], objective: Objective) -> list[Cell]:
    """One advantage per response before whitening; the mean over loss tokens where tokens have their own."""
    answers = []
    if objective.baseline.kind == "logged" and any(row.token_advantage for row in rows):
        for row, cells in zip(rows, raw_tokens(rows, objective), strict=True):
            answers.append((math.fsum(a for a, _ in cells) / max(sum(row.mask), 1), 0.0))
        return answers
    if not varies(objective):
        kl = objective.kl.reward
        for row, of_row in zip(rows, rewards.response_advantages(rows, objective), strict=True):
            off = 0.0
            if kl is not None and kl.stage == "after_scale" and objective.baseline.kind != "logged":
                off = kl.coefficient * math.fsum(rewards.token_kl(row, kl))
            answers.append((of_row.advantage - off, of_row.size + abs(off)))
        return answers
    base = rewards.response_advantages(rows, objective) if objective.baseline.kind != "gae" else None
    for i, (row, cells) in enumerate(zip(rows, raw_tokens(rows, objective), strict=True)):
        live = [cells[t] for t, m in enumerate(row.mask) if m]
        alone = (base[i].advantage, base[i].size) if base else (0.0, 0.0)
        mean = math.fsum(a for a, _ in live) / len(live) if live else alone[0]
        answers.append((mean, max((size for _, size in live), default=alone[1])))
    return answers
