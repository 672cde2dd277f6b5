"""Every weight, against two independent second opinions: closed forms in loops, and autograd on the loss."""

from __future__ import annotations

import math
from dataclasses import replace

import oracle_autograd
import oracle_loop
import pytest
import weight_strategies as some
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from weight_cases import Row, responses_of, tokens_of

from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import (
    Aggregation,
    Baseline,
    Objective,
    Overlong,
    Ratio,
    Scale,
    Shaping,
    from_dict,
)
from audit.objectives.weights import effective_weights, row_coefficients

RELATIVE = 1e-9
"""Allowed relative error of a weight. Required is 1e-6; 1e-13 is what is usually reached."""
ROUNDING = 1e-13
"""Allowed error as a share of the largest terms that cancel in the weight."""

patiently = settings(
    deadline=None,
    max_examples=120,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def is_well_posed(rows: list[Row], objective: Objective) -> bool:
    """No pool of rewards is split by rounding alone: rewards of a pool are equal, or 1e-6 apart."""
    for value in (oracle_loop.seen_by_baseline, oracle_loop.shaped):
        values = [value(row, objective) for row in rows]
        for key in ("group", "generation"):
            for pool in oracle_loop.pool_of(rows, values, key).values():
                spread = max((v for v, _ in pool), default=0.0) - min((v for v, _ in pool), default=0.0)
                if 0 < spread < 1e-6:
                    return False
    return True


def check(rows: list[Row], objective: Objective) -> float:
    """Compare with both oracles; return the worst relative error of a weight above the rounding floor."""
    by_token = objective.baseline.kind == "logged" and any(row.token_advantage for row in rows)
    tokens, responses = tokens_of(rows, token_advantage=by_token), responses_of(rows)
    computed = effective_weights(tokens, responses, objective)
    flat = [answer for row in oracle_loop.answers(rows, objective) for answer in row]
    graph = oracle_autograd.answer(rows, objective)
    slope = [value for row in graph.weight for value in row]
    removed = [flag for row in graph.zeroed for flag in row]
    mask = [on for row in rows for on in row.mask]
    worst = 0.0
    parts = zip(
        computed.weight.tolist(),
        (computed.policy + computed.kl).tolist(),
        computed.zeroed.tolist(),
        flat,
        slope,
        removed,
        mask,
        strict=True,
    )
    for weight, total, zeroed, loop, gradient, removed_by_graph, on in parts:
        assert weight == total
        for expected in (loop.weight, gradient):
            assert math.isfinite(expected)
            error = abs(weight - expected)
            assert error <= RELATIVE * abs(expected) + ROUNDING * loop.size, (weight, expected, loop)
            if abs(expected) > 1e-6 * loop.size:
                worst = max(worst, error / abs(expected))
        if not on:
            assert weight == 0
            assert not zeroed
        elif loop.sure:
            assert zeroed == loop.zeroed
            assert zeroed == removed_by_graph
    return worst


def check_rows(rows: list[Row], objective: Objective) -> None:
    """Compare advantages of responses with both oracles."""
    tokens, responses = tokens_of(rows), responses_of(rows)
    if objective.kl.reward is not None:
        from audit.objectives.weights import reference_kl

        kl = reference_kl(tokens, objective.kl.reward.estimator)
        responses = replace(responses, reference_kl=kl)
    computed = row_coefficients(responses, objective).advantage.tolist()
    loop = oracle_loop.advantages(rows, objective)
    for a, one, other in zip(computed, loop, oracle_autograd.advantages(rows, objective), strict=True):
        allowed = RELATIVE * abs(one.advantage) + ROUNDING * one.size
        assert abs(a - one.advantage) <= allowed
        assert abs(a - other) <= allowed


def fitted(name: str) -> Objective:
    """The catalogue entry, with lengths and constants that bite on responses of 0-8 tokens."""
    objective = named(name)
    if name == "dr_grpo":
        objective = objective.replace(aggregation=Aggregation(kind="seq-mean-token-sum-norm", constant=8.0))
    if name == "dapo":
        objective = objective.replace(shaping=Shaping(overlong=Overlong(max_length=7, cache=4)))
    return objective


@pytest.mark.parametrize("name", sorted(CATALOGUE))
@given(rows=some.batches())
@settings(patiently, max_examples=40)
def test_catalogue_agrees_with_both_oracles(name: str, rows: list[Row]) -> None:
    objective = fitted(name)
    if name != "remax":
        rows = some.without_greedy(rows)
    assume(is_well_posed(rows, objective))
    check(rows, objective)
    check_rows(rows, objective)


@given(rows=some.batches(), objective=some.objectives(), greedy=st.booleans())
@settings(patiently, max_examples=300)
def test_any_composition_agrees_with_both_oracles(
    rows: list[Row], objective: Objective, greedy: bool
) -> None:
    if objective.baseline.kind != "greedy" and not greedy:
        rows = some.without_greedy(rows)
    assume(is_well_posed(rows, objective))
    for part in (objective.clip.kind, objective.ratio.level, objective.aggregation.scope):
        event(part)
    check(rows, objective)
    check_rows(rows, objective)


@pytest.mark.parametrize("level", ["token", "sequence", "product"])
@given(rows=some.batches(by_token=st.just(True)), objective=some.objectives())
@settings(patiently, max_examples=40)
def test_advantages_of_tokens_meet_ratios_of_every_level(
    level: str, rows: list[Row], objective: Objective
) -> None:
    objective = objective.replace(
        baseline=Baseline(kind="logged"), scale=Scale(), ratio=Ratio(denominator="old", level=level)
    )
    check(some.without_greedy(rows), objective)


@given(rows=some.batches(), objective=some.objectives())
@settings(patiently, max_examples=80)
def test_the_order_of_responses_does_not_matter(rows: list[Row], objective: Objective) -> None:
    order = sorted(range(len(rows)), key=lambda i: hash((i * 2654435761) % 1009))
    assume(is_well_posed(rows, objective))
    by_token = any(row.token_advantage for row in rows)

    def weights(of: list[Row]) -> list[list[float]]:
        tokens = tokens_of(of, token_advantage=by_token)
        return [
            w.tolist()
            for w in effective_weights(tokens, responses_of(of), objective).weight.split(
                [len(row.mask) for row in of]
            )
        ]

    there, back = weights(rows), weights([rows[i] for i in order])
    sizes = [[a.size for a in row] for row in oracle_loop.answers(rows, objective)]
    for place, i in enumerate(order):
        for a, b, size in zip(there[i], back[place], sizes[i], strict=True):
            assert abs(a - b) <= RELATIVE * abs(a) + ROUNDING * size


@given(rows=some.batches(), objective=some.objectives(), filling=st.sampled_from([0.0, -1.0, *some.POISON]))
@settings(patiently, max_examples=80)
def test_values_at_masked_tokens_never_reach_a_result(
    rows: list[Row], objective: Objective, filling: float
) -> None:
    def fill(row: Row) -> Row:
        names = ("theta", "old", "ref", "sampler", "token_advantage")
        filled = {
            name: tuple(v if m else filling for v, m in zip(getattr(row, name), row.mask, strict=True))
            for name in names
            if getattr(row, name)
        }
        return replace(row, **filled)

    by_token = any(row.token_advantage for row in rows)
    results = []
    for variant in (rows, [fill(row) for row in rows]):
        tokens = tokens_of(variant, token_advantage=by_token)
        results.append(effective_weights(tokens, responses_of(variant), objective))
    for part in ("weight", "policy", "kl", "zeroed"):
        one, other = (getattr(result, part) for result in results)
        assert one.isfinite().all()
        assert one.equal(other)


@given(objective=some.objectives())
@settings(patiently)
def test_an_objective_survives_the_way_through_plain_dicts(objective: Objective) -> None:
    assert from_dict(objective.to_dict()) == objective
