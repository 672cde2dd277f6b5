"""Comparison of weights and advantages with both oracles."""

from __future__ import annotations

import math
from itertools import pairwise

import oracle_advantages
import oracle_autograd
import oracle_loop
import oracle_rewards
import oracle_surrogates
from weight_cases import Row, responses_of, tokens_of

from audit.objectives.coefficients import token_advantage
from audit.objectives.objective import Objective
from audit.objectives.weights import batch_coefficients, effective_weights

RELATIVE = 1e-9
"""Allowed relative error of a weight. Required is 1e-6; 1e-13 is what is usually reached."""
ROUNDING = 1e-13
"""Allowed error as a share of the largest terms that cancel in the weight."""


def by_token(rows: list[Row], objective: Objective) -> bool:
    """Whether logged advantages of tokens are used."""
    return objective.baseline.kind == "logged" and any(row.token_advantage for row in rows)


def is_well_posed(rows: list[Row], objective: Objective) -> bool:
    """Nothing is decided by rounding alone, and pass@k has its k responses.

    Rewards of a pool are equal, or 1e-6 apart; so are means from the bounds that they are compared with.
    """
    columns = [
        [value(row, objective) for row in rows]
        for value in (oracle_rewards.seen_by_baseline, oracle_rewards.shaped)
    ]
    if objective.shaping.per_component:
        columns += [[row.components[name] for row in rows] for name in objective.shaping.weights]
    if not spread_is_clear(rows, objective):
        return False
    for values in columns:
        if any(0 < abs(v) < 1e-6 for v in values):
            return False
        for key in ("group", "generation"):
            for pool in oracle_rewards.pool_of(rows, values, key).values():
                spread = max((v for v, _ in pool), default=0.0) - min((v for v, _ in pool), default=0.0)
                if 0 < spread < 1e-6:
                    return False
                if key == "group" and pool:
                    if objective.scale.kind == "leave_one_out_std" and not turns_agree(pool):
                        return False
                    if objective.baseline.k and not k_can_be_drawn(pool, objective.baseline.k):
                        return False
                    if (
                        objective.scale.kind == "group_mean"
                        and abs(oracle_rewards.mean(pool) + objective.scale.epsilon) < 1e-6
                    ):
                        return False
    return True


def spread_is_clear(rows: list[Row], objective: Objective) -> bool:
    """Whether what whitening divides by is more than rounding."""
    if objective.scale.whiten is None or (objective.baseline.k or 1) > 1:
        return objective.scale.whiten is None
    sizes = [size for _, size in oracle_advantages.whole_rows(rows, objective)]
    least = 1e-9 * max(sizes, default=0.0)
    moments = oracle_advantages.all_moments(rows, objective).values()
    return not any(0 <= variance <= least**2 for _, variance, _ in moments)


def k_can_be_drawn(pool: oracle_rewards.Weighted, k: int) -> bool:
    """Whether the group has k samples, all turns of which succeed or fail together."""
    failed = math.fsum(w for v, w in pool if not v > 0)
    return oracle_rewards.count(pool) > k - 1e-9 and abs(failed - round(failed)) < 1e-9


def turns_agree(pool: oracle_rewards.Weighted) -> bool:
    """Whether all turns of a trajectory have one value, so that a whole sample can be left out."""
    return all(math.fsum(w for v, w in pool if v == value) > 1 - 1e-9 for value, _ in pool)


def is_clear(rows: list[Row], objective: Objective) -> bool:
    """Whether the weights are decided by the formulas and not by rounding."""
    return (
        is_well_posed(rows, objective)
        and ranks_are_clear(rows, objective)
        and not rounding_alone(rows, objective)
    )


def rounding_alone(rows: list[Row], objective: Objective) -> bool:
    """Whether an advantage that should be 0 may not be, or the other way round: signs then say nothing."""
    tables = oracle_advantages.of_tokens(rows, objective)
    live = [
        c for row, cells in zip(rows, tables, strict=True) for c, m in zip(cells, row.mask, strict=True) if m
    ]
    return any(abs(a) <= 1e-11 * size for a, size in live if size > 0)


def ranks_are_clear(rows: list[Row], objective: Objective) -> bool:
    """Whether no covariance is equal to another, or to a bound, but for rounding."""
    if objective.clip.kind not in ("clip_cov", "kl_cov"):
        return True
    bounds = [objective.clip.low, objective.clip.high] if objective.clip.kind == "clip_cov" else []
    for batch in oracle_loop.cov_batches(rows, objective):
        ordered = sorted([*oracle_surrogates.covariances(batch), *bounds])
        if any(b - a < 1e-9 for a, b in pairwise(ordered)):
            return False
    return True


def check_advantages(rows: list[Row], objective: Objective) -> None:
    """Compare the finished advantage of every loss token."""
    tokens = tokens_of(rows, token_advantage=by_token(rows, objective))
    coefficients = batch_coefficients(tokens, responses_of(rows), objective)
    computed = token_advantage(tokens, coefficients, objective).tolist()
    cells = [cell for of_row in oracle_advantages.of_tokens(rows, objective) for cell in of_row]
    mask = [on for row in rows for on in row.mask]
    for a, (expected, size), on in zip(computed, cells, mask, strict=True):
        if on:
            assert abs(a - expected) <= RELATIVE * abs(expected) + 10 * ROUNDING * size, (a, expected, size)


def check(rows: list[Row], objective: Objective) -> float:
    """Compare with both oracles; return the worst relative error of a weight above the rounding floor."""
    tokens, responses = tokens_of(rows, token_advantage=by_token(rows, objective)), responses_of(rows)
    computed = effective_weights(tokens, responses, objective)
    flat = [answer for row in oracle_loop.answers(rows, objective) for answer in row]
    graph = oracle_autograd.answer(rows, objective)
    slope = [value for row in graph.weight for value in row]
    flags = (
        [loop.zeroed for loop in flat] if graph.zeroed is None else [f for row in graph.zeroed for f in row]
    )
    mask = [on for row in rows for on in row.mask]
    worst = 0.0
    parts = zip(
        computed.weight.tolist(),
        (computed.policy + computed.kl).tolist(),
        computed.zeroed.tolist(),
        flat,
        slope,
        flags,
        mask,
        strict=True,
    )
    for weight, total, zeroed, loop, gradient, removed_by_graph, on in parts:
        assert weight == total
        for name, expected in (("closed form", loop.weight), ("autograd", gradient)):
            assert math.isfinite(expected), name
            error = abs(weight - expected)
            assert error <= RELATIVE * abs(expected) + ROUNDING * loop.size, (name, weight, loop, gradient)
            if abs(expected) > 1e-6 * loop.size:
                worst = max(worst, error / abs(expected))
        if not on:
            assert weight == 0
            assert not zeroed
        elif loop.sure:
            assert zeroed == loop.zeroed
            assert zeroed == removed_by_graph
    return worst
