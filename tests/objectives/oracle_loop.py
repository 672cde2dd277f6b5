"""A slow second opinion: advantage, weight and zeroed flag of every token, in loops over plain floats.

Written from the formulas alone: w = nu kappa A c - beta nu h, with the closed forms of c and h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import oracle_advantages
import oracle_surrogates
from oracle_counts import coefficients, corrections, entropy_mask, in_loss, loss_mask
from oracle_rewards import kl_slope, kl_value
from oracle_surrogates import Slope, Token
from weight_cases import Row

from audit.objectives.objective import LossKL, Objective

STOPPED = ("cispo", "vespo")
"""Surrogates whose ratio is a weight without gradient."""


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


def log_ratios(row: Row, objective: Objective) -> tuple[list[float], list[bool]]:
    """Log-ratio of every token, clamped, and whether the clamp holds it."""
    below = {"old": row.old, "sampler": row.sampler, "theta": row.theta}[objective.ratio.denominator]
    bound = math.inf if objective.ratio.clamp is None else objective.ratio.clamp
    logs = [a - b for a, b in zip(row.theta, below, strict=True)]
    return [min(max(log, -bound), bound) for log in logs], [abs(log) > bound for log in logs]


def kl_factor(
    row: Row,
    live: list[int],
    ratio: dict[int, float],
    held: dict[int, bool],
    kappa: dict[int, float],
    kl: LossKL,
    level: str,
) -> tuple[dict[int, float], float]:
    """kappa h of every loss token, and the size of the terms of any."""
    other = {None: row.ref, "old": row.old, "sampler": row.sampler}[kl.against]
    bound = math.inf if kl.input_clamp is None else kl.input_clamp
    ceiling = math.inf if kl.output_clamp is None else kl.output_clamp
    value, slope, distance, free = {}, {}, {}, {}
    size = 0.0
    for t in live:
        d = row.theta[t] - other[t]
        nearer = min(max(d, -bound), bound)
        k = kl_value(nearer, kl.estimator)
        free[t] = abs(d) <= bound and abs(k) <= ceiling
        value[t], distance[t] = min(max(k, -ceiling), ceiling), d
        slope[t] = kl_slope(d, kl.estimator) if free[t] else 0.0
        size += kappa[t] * (1 + ratio[t]) * (2 + 2 * abs(d) + d * d + math.exp(-nearer))
    spread = math.fsum(kappa[s] * ratio[s] * value[s] for s in live)
    reach = {"sequence": spread / max(len(live), 1), "product": spread}
    h = {}
    for t in live:
        if kl.gradient == "pathwise":
            h[t] = kappa[t] * slope[t]
        elif kl.gradient == "straight_through":
            h[t] = kappa[t] * distance[t] * (1.0 if kl.ratio_cap is None else min(ratio[t], kl.ratio_cap))
        elif kl.gradient == "unit_ratio":
            h[t] = kappa[t] * (slope[t] + value[t]) if free[t] else 0.0
        else:
            through = reach.get(level, kappa[t] * ratio[t] * value[t])
            h[t] = kappa[t] * ratio[t] * slope[t] + (0.0 if held[t] else through)
    return h, size


def live_tokens(rows: list[Row], objective: Objective) -> list[list[int]]:
    """Places of the tokens of each response that take loss."""
    kept = in_loss(rows, objective)
    return [
        [t for t, m in enumerate(loss_mask(row, objective)) if m and keep]
        for row, keep in zip(rows, kept, strict=True)
    ]


def seen_tokens(rows: list[Row], objective: Objective) -> list[list[Token]]:
    """The loss tokens of each response, as its surrogate sees them."""
    level, floor = objective.ratio.level, math.log(1e-8)
    tables, weights = oracle_advantages.of_tokens(rows, objective), corrections(rows, objective)
    seen = []
    for row, live, cells, of_corrections in zip(
        rows, live_tokens(rows, objective), tables, weights, strict=True
    ):
        logs, _ = log_ratios(row, objective)
        total = math.fsum(logs[t] for t in live)
        below = {"old": row.old, "sampler": row.sampler, "theta": row.theta}[objective.ratio.denominator]
        tokens = []
        for t in live:
            exponent = {"token": logs[t], "product": total}.get(level, total / len(live))
            absorbed = math.fsum(
                (max(math.log(w[t]), floor) if w[t] > 0 else floor) / (1 if c.level == "token" else len(live))
                for c, w in zip(objective.ratio.corrections, of_corrections, strict=True)
            )
            tokens.append(
                Token(
                    log=logs[t],
                    ratio=math.exp(exponent),
                    advantage=cells[t][0],
                    theta=row.theta[t],
                    below=below[t],
                    correction=math.prod(w[t] for w in of_corrections),
                    absorbed=absorbed,
                )
            )
        seen.append(tokens)
    return seen


def cov_batches(rows: list[Row], objective: Objective) -> list[list[Token]]:
    """The loss tokens of every micro-batch."""
    seen = seen_tokens(rows, objective)
    return [
        [token for row, tokens in zip(rows, seen, strict=True) if row.micro == micro for token in tokens]
        for micro in sorted({row.micro for row in rows})
    ]


def answers(rows: list[Row], objective: Objective) -> list[list[TokenAnswer]]:
    """Advantage, weight and zeroed flag of every token of every response."""
    clip, level, loss_kl = objective.clip, objective.ratio.level, objective.kl.loss
    tables, live = oracle_advantages.of_tokens(rows, objective), live_tokens(rows, objective)
    nus = coefficients(rows, objective)
    nus_kl = nus if loss_kl is None else coefficients(rows, objective, loss_kl.aggregation)
    chosen = entropy_mask(rows, live, objective)
    weights = corrections(rows, objective)
    seen = seen_tokens(rows, objective)
    held = [
        [log_ratios(row, objective)[1][t] for t in of_row] for row, of_row in zip(rows, live, strict=True)
    ]
    slopes = of_surrogate(rows, seen, objective)
    result = []
    for i, row in enumerate(rows):
        policy, bulk = {}, {}
        for t, token, slope in zip(live[i], seen[i], slopes[i], strict=True):
            kappa = (1.0 if clip.kind == "vespo" else token.correction) * (t in chosen[i])
            policy[t] = nus[i] * kappa * slope.value
            bulk[t] = nus[i] * kappa * (slope.size + (1 + token.ratio) * tables[i][t][1])
        whole = clip.kind == "gmpo" or level in ("sequence", "product")
        if clip.kind not in STOPPED and whole and live[i]:
            # Geometric: d s / d log pi_t = s / L. Product: one term per response, d P / d log pi_t = P.
            policy = dict.fromkeys(live[i], math.fsum(policy.values()) / len(live[i]))
            bulk = dict.fromkeys(live[i], math.fsum(bulk.values()) / len(live[i]))
        if clip.kind not in STOPPED:
            policy = {t: 0.0 if h else policy[t] for t, h in zip(live[i], held[i], strict=True)}
        if clip.kind == "gmpo":
            policy = {t: 0.0 if s.zeroed else policy[t] for t, s in zip(live[i], slopes[i], strict=True)}
        if loss_kl is not None:
            ratio = {t: token.ratio for t, token in zip(live[i], seen[i], strict=True)}
            weighs = [w for c, w in zip(objective.ratio.corrections, weights[i], strict=True) if c.weighs_kl]
            on_kl = {t: math.prod(w[t] for w in weighs) for t in live[i]}
            bound = dict(zip(live[i], held[i], strict=True))
            h, size = kl_factor(row, live[i], ratio, bound, on_kl, loss_kl, level)
            for t in live[i]:
                policy[t] -= loss_kl.coefficient * nus_kl[i] * h[t]
                bulk[t] += loss_kl.coefficient * nus_kl[i] * size
        zeroed = {t: s.zeroed for t, s in zip(live[i], slopes[i], strict=True)}
        result.append(
            [
                TokenAnswer(
                    tables[i][t][0],
                    policy.get(t, 0.0),
                    zeroed.get(t, False),
                    bulk.get(t, 0.0),
                    tables[i][t][1] == 0 or abs(tables[i][t][0]) > 1e-12 * tables[i][t][1],
                )
                for t in range(len(row.mask))
            ]
        )
    return result


def of_surrogate(rows: list[Row], seen: list[list[Token]], objective: Objective) -> list[list[Slope]]:
    """Slope of every loss token, response by response or micro-batch by micro-batch."""
    if objective.clip.kind not in ("clip_cov", "kl_cov"):
        return [oracle_surrogates.slopes(tokens, objective.clip) for tokens in seen]
    out: list[list[Slope]] = [[] for _ in rows]
    for micro in sorted({row.micro for row in rows}):
        here = [i for i, row in enumerate(rows) if row.micro == micro]
        flat = oracle_surrogates.batch_slopes([t for i in here for t in seen[i]], objective.clip)
        for i in here:
            out[i], flat = flat[: len(seen[i])], flat[len(seen[i]) :]
    return out
