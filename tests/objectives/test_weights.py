"""Every weight, against two independent second opinions: closed forms in loops, and autograd on the loss."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import objective_strategies as any_
import oracle_autograd
import oracle_loop
import oracle_rewards
import pytest
import weight_strategies as some
from fuzz import examples
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from weight_cases import Row, responses_of, tokens_of
from weight_checks import RELATIVE, ROUNDING, by_token, check, check_advantages, is_clear, is_well_posed

from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Objective,
    Overlong,
    Ratio,
    Scale,
    Shaping,
    from_dict,
)
from audit.objectives.surrogates import NoClip
from audit.objectives.weights import effective_weights

patiently = settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def check_rows(rows: list[Row], objective: Objective) -> None:
    """Compare advantages of responses in matrix products, where baseline and scale are the simple ones."""
    older = ("none", "group_mean", "leave_one_out", "greedy", "batch_mean", "logged")
    plain = objective.replace(
        baseline=Baseline(kind=objective.baseline.kind if objective.baseline.kind in older else "group_mean"),
        scale=Scale(
            kind=objective.scale.kind
            if objective.scale.kind in ("none", "group_std", "batch_std")
            else "none",
            ddof=objective.scale.ddof,
            epsilon=objective.scale.epsilon,
        ),
        shaping=msgspec.structs.replace(objective.shaping, per_component=False),
        kl=KL(),
    )
    loop = oracle_rewards.response_advantages(rows, plain)
    for one, other in zip(loop, oracle_autograd.advantages(rows, plain), strict=True):
        assert abs(one.advantage - other) <= RELATIVE * abs(other) + ROUNDING * one.size


def fitted(name: str) -> Objective:
    """The catalogue entry, with lengths and constants that bite on responses of 0-8 tokens."""
    objective = named(name)
    if name == "dr_grpo":
        objective = objective.replace(aggregation=Aggregation(kind="seq-mean-token-sum-norm", constant=8.0))
    if name == "gdpo":
        parts = dict(zip(("right", "form"), objective.shaping.weights.values(), strict=True))
        objective = objective.replace(shaping=Shaping(weights=parts, per_component=True))
    if name == "dapo":
        objective = objective.replace(shaping=Shaping(overlong=Overlong(max_length=7, cache=4)))
    return objective


@pytest.mark.parametrize("name", sorted(CATALOGUE))
@given(rows=some.batches())
@settings(patiently, max_examples=examples(10))
def test_catalogue_agrees_with_both_oracles(name: str, rows: list[Row]) -> None:
    objective = fitted(name)
    if name != "remax":
        rows = some.without_greedy(rows)
    assume(is_well_posed(rows, objective))
    check_advantages(rows, objective)
    check_rows(rows, objective)
    assume(is_clear(rows, objective))
    check(rows, objective)


@given(rows=some.batches(), objective=any_.objectives(), greedy=st.booleans())
@settings(patiently, max_examples=examples(100))
def test_any_composition_agrees_with_both_oracles(
    rows: list[Row], objective: Objective, greedy: bool
) -> None:
    if objective.baseline.kind != "greedy" and not greedy:
        rows = some.without_greedy(rows)
    assume(is_well_posed(rows, objective))
    for part in (objective.clip.kind, objective.ratio.level, objective.aggregation.scope):
        event(part)
    check_advantages(rows, objective)
    check_rows(rows, objective)
    assume(is_clear(rows, objective))
    check(rows, objective)


@pytest.mark.parametrize("level", ["token", "sequence", "sequence_token", "product"])
@given(rows=some.batches(by_token=st.just(True)), objective=any_.objectives())
@settings(patiently, max_examples=examples(20))
def test_advantages_of_tokens_meet_ratios_of_every_level(
    level: str, rows: list[Row], objective: Objective
) -> None:
    objective = objective.replace(
        shaping=Shaping(),
        baseline=Baseline(kind="logged"),
        scale=Scale(),
        ratio=Ratio(denominator="old", level=level),
        clip=objective.clip if level == "token" or objective.clip.kind in any_.OF_ANY_LEVEL else NoClip(),
        kl=KL(loss=objective.kl.loss),
    )
    rows = some.without_greedy(rows)
    assume(is_clear(rows, objective))
    check(rows, objective)


@given(rows=some.batches(), objective=any_.objectives())
@settings(patiently, max_examples=examples(30))
def test_the_order_of_responses_does_not_matter(rows: list[Row], objective: Objective) -> None:
    order = sorted(range(len(rows)), key=lambda i: hash((i * 2654435761) % 1009))
    assume(is_clear(rows, objective))
    logged = by_token(rows, objective)

    def weights(of: list[Row]) -> list[list[float]]:
        tokens = tokens_of(of, token_advantage=logged)
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


@given(rows=some.batches(), objective=any_.objectives(), filling=st.sampled_from([0.0, -1.0, *some.POISON]))
@settings(patiently, max_examples=examples(30))
def test_values_at_masked_tokens_never_reach_a_result(
    rows: list[Row], objective: Objective, filling: float
) -> None:
    def fill(row: Row) -> Row:
        names = ("theta", "old", "ref", "sampler", "token_advantage", "value", "entropy")
        filled = {
            name: tuple(v if m else filling for v, m in zip(getattr(row, name), row.mask, strict=True))
            for name in names
            if getattr(row, name)
        }
        return replace(row, **filled)

    assume(is_well_posed(rows, objective))
    results = []
    for variant in (rows, [fill(row) for row in rows]):
        tokens = tokens_of(variant, token_advantage=by_token(rows, objective))
        results.append(effective_weights(tokens, responses_of(variant), objective))
    for part in ("weight", "policy", "kl", "zeroed"):
        one, other = (getattr(result, part) for result in results)
        assert one.isfinite().all()
        assert one.equal(other)


@given(objective=any_.objectives())
@settings(patiently)
def test_an_objective_survives_the_way_through_plain_dicts(objective: Objective) -> None:
    assert from_dict(objective.to_dict()) == objective
