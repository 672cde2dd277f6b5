"""Who divides by what: rows and tokens that count, and the length pressure that follows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from fuzz import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from weight_cases import Row, responses_of, tokens_of

from audit.errors import BadObjective, MissingColumn
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import KL, Aggregation, Baseline, Filter, Objective, RewardKL
from audit.objectives.weights import effective_weights, row_coefficients


def row(length: int, reward: float = 1.0, off: int = 0, **fields) -> Row:
    mask = tuple(t >= off for t in range(length))
    zeros = (0.0,) * length
    return Row(reward, mask=mask, theta=zeros, old=zeros, ref=zeros, sampler=zeros, **fields)


def nu(rows: list[Row], kind: str, scope: str = "update", **parts) -> list[float]:
    constant = 10.0 if kind.endswith("-norm") else None
    objective = Objective(aggregation=Aggregation(kind=kind, scope=scope, constant=constant), **parts)
    return row_coefficients(responses_of(rows), objective).nu.tolist()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("seq-mean-token-mean", [1 / 8, 1 / 16]),
        ("token-mean", [1 / 12, 1 / 12]),
        ("seq-mean-token-sum", [1 / 2, 1 / 2]),
        ("seq-mean-token-sum-norm", [1 / 20, 1 / 20]),
        ("token-sum", [1.0, 1.0]),
        ("token-sum-norm", [1 / 10, 1 / 10]),
    ],
)
def test_the_table_of_coefficients(kind: str, expected: list[float]) -> None:
    assert nu([row(6, off=2), row(8)], kind) == pytest.approx(expected, rel=1e-15)


def test_an_update_is_its_own_denominator() -> None:
    rows = [row(4), row(2), row(5, update=1)]
    assert nu(rows, "token-mean") == pytest.approx([1 / 6, 1 / 6, 1 / 5])
    assert nu(rows, "seq-mean-token-sum") == pytest.approx([1 / 2, 1 / 2, 1.0])


def test_micro_batches_are_averaged() -> None:
    rows = [row(4, micro=0), row(2, micro=0), row(3, micro=1), row(5, update=1, micro=2)]
    assert nu(rows, "token-mean", "micro_batch") == pytest.approx([1 / 12, 1 / 12, 1 / 6, 1 / 5])
    assert nu(rows, "token-mean") == pytest.approx([1 / 9, 1 / 9, 1 / 9, 1 / 5])
    assert nu(rows, "seq-mean-token-sum", "micro_batch") == pytest.approx([1 / 4, 1 / 4, 1 / 2, 1.0])
    assert nu(rows, "token-sum", "micro_batch") == pytest.approx([1 / 2, 1 / 2, 1 / 2, 1.0])


def test_micro_batches_without_a_trained_row_do_not_exist() -> None:
    trained = [row(4, micro=0), row(2, micro=1)]
    with_greedy = [*trained, row(3, micro=2, greedy=True)]
    assert nu(with_greedy, "token-mean", "micro_batch") == [*nu(trained, "token-mean", "micro_batch"), 0.0]


def test_the_generation_batch_is_shared_out_by_rows() -> None:
    rows = [row(6), row(2), row(1, update=1), row(3, update=2)]
    shares = [1 / (12 * 2 / 4)] * 2 + [1 / (12 * 1 / 4)] * 2
    assert nu(rows, "token-mean", "generation_batch") == pytest.approx(shares, rel=1e-15)
    assert nu(rows, "seq-mean-token-sum", "generation_batch") == nu(rows, "seq-mean-token-sum")
    one_update = [replace(r, update=0) for r in rows]
    assert nu(one_update, "token-mean", "generation_batch") == nu(one_update, "token-mean")


def test_a_share_of_less_than_one_token_is_a_share() -> None:
    rows = [row(2), row(0, update=1), row(0, update=2)]
    assert nu(rows, "token-mean", "generation_batch")[0] == pytest.approx(3 / 2, rel=1e-15)


def test_filtered_groups_leave_every_count() -> None:
    filtered = {"filter": Filter(dynamic_sampling=True)}
    live = [row(4, 1.0, group=0), row(2, 0.0, group=0)]
    dead = [row(3, 0.5, group=1, update=1, micro=1), row(3, 0.5, group=1, micro=1)]
    for kind in ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "token-sum"):
        for scope in ("update", "micro_batch", "generation_batch"):
            assert nu([*live, *dead], kind, scope, **filtered) == [*nu(live, kind, scope), 0.0, 0.0]


def test_the_filter_looks_at_shaped_rewards_and_not_at_the_kl() -> None:
    rows = [
        replace(row(1, 1.0), old=(-1.0,)),
        replace(row(1, 1.0), old=(-2.0,)),
    ]
    objective = Objective(
        filter=Filter(dynamic_sampling=True),
        baseline=Baseline(kind="group_mean"),
        kl=KL(reward=RewardKL(coefficient=0.1)),
    )
    unfiltered = objective.replace(filter=Filter())
    assert effective_weights(tokens_of(rows), responses_of(rows), objective).weight.tolist() == [0.0, 0.0]
    assert effective_weights(tokens_of(rows), responses_of(rows), unfiltered).weight.ne(0).all()


def test_truncated_rows_take_no_loss_but_stay_in_the_row_count() -> None:
    masked = {"filter": Filter(mask_truncated=True)}
    rows = [row(4), row(8, 0.0, truncated=True)]
    assert nu(rows, "seq-mean-token-sum", **masked)[0] == 1 / 2
    assert nu(rows, "token-mean", **masked)[0] == 1 / 4
    objective = Objective(baseline=Baseline(kind="group_mean"), **masked)
    computed = effective_weights(tokens_of(rows), responses_of(rows), objective)
    assert computed.weight.tolist() == [0.5 / 8] * 4 + [0.0] * 8


def test_rows_without_loss_tokens_count_as_rows() -> None:
    assert nu([row(4), row(3, off=3), row(0)], "seq-mean-token-sum")[0] == pytest.approx(1 / 3)


def test_what_is_missing_is_said() -> None:
    responses = responses_of([row(2)])
    with pytest.raises(BadObjective, match=r"needs its constant.*aggregation\.constant"):
        row_coefficients(responses, named("dr_grpo"))
    bnpo = Objective(aggregation=Aggregation(kind="token-mean", scope="micro_batch"))
    with pytest.raises(MissingColumn, match=r"'micro_batch'.*scope=update"):
        row_coefficients(replace(responses, micro_batch=None), bnpo)
    with pytest.raises(MissingColumn, match="'finish_reason'"):
        row_coefficients(replace(responses, truncated=None), Objective(filter=Filter(mask_truncated=True)))


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_no_responses_no_weights(name: str) -> None:
    objective = named(name)
    if name == "dr_grpo":
        objective = objective.replace(aggregation=Aggregation(kind="token-sum-norm", constant=1.0))
    lacking = {"remax": "'is_greedy'", "ppo_gae": "'value'", "gdpo": "'reward_components"}
    if name in lacking:
        with pytest.raises(MissingColumn, match=lacking[name]):
            effective_weights(tokens_of([]), responses_of([]), objective)
        return
    assert effective_weights(tokens_of([]), responses_of([]), objective).weight.shape == (0,)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=10))
@settings(deadline=None, max_examples=examples(100))
def test_dividing_by_the_own_length_shortens_right_answers_and_lengthens_wrong_ones(
    lengths: list[int],
) -> None:
    n = torch.tensor(lengths, dtype=torch.float64)
    for reward in (1.0, -1.0):
        rows = [row(length, reward) for length in lengths]
        for kind in ("seq-mean-token-mean", "token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"):
            mean_weight = torch.tensor(nu(rows, kind), dtype=torch.float64) * reward
            pressure = (mean_weight * n).mean() - mean_weight.mean() * n.mean()
            if kind != "seq-mean-token-mean" or len(set(lengths)) == 1:
                assert abs(pressure) < 1e-12
            else:
                assert pressure * reward < 0
                predicted = reward / len(lengths) * (1 - n.mean() * (1 / n).mean())
                assert pressure.item() == pytest.approx(predicted.item(), rel=1e-9)
