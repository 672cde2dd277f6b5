"""Facts about advantages that hold whatever the code looks like."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from fuzz import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from weight_cases import Row, responses_of

from audit.errors import BadObjective, MissingColumn
from audit.objectives.advantages import advantages, advantages_under, dead_groups
from audit.objectives.catalogue import named
from audit.objectives.objective import (
    KL,
    Baseline,
    Objective,
    Overlong,
    RewardKL,
    Scale,
    Shaping,
    from_dict,
)

quickly = settings(deadline=None, max_examples=examples(100))

MEAN = Objective(baseline=Baseline(kind="group_mean"))
LOO = Objective(baseline=Baseline(kind="leave_one_out"))


def with_std(objective: Objective, kind: str = "group_std", ddof: int = 0, epsilon: float = 0.0) -> Objective:
    return objective.replace(scale=Scale(kind=kind, ddof=ddof, epsilon=epsilon))


def of(objective: Objective, *groups: list[float]) -> list[Tensor]:
    """Advantages of groups of rewards that were sampled together, group by group."""
    rows = [Row(reward, group=g) for g, rewards in enumerate(groups) for reward in rewards]
    return list(advantages(responses_of(rows), objective).split([len(rewards) for rewards in groups]))


rewards = st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=2, max_size=12)


@given(rewards)
@quickly
def test_group_mean_is_leave_one_out_times_g_minus_1_over_g(group: list[float]) -> None:
    (mean,), (loo,) = of(MEAN, group), of(LOO, group)
    G = len(group)
    torch.testing.assert_close(mean, (G - 1) / G * loo, rtol=1e-12, atol=1e-12)


@given(rewards, st.sampled_from([MEAN, LOO, with_std(MEAN), with_std(LOO, ddof=1, epsilon=1e-4)]))
@quickly
def test_advantages_of_a_group_sum_to_zero(group: list[float], objective: Objective) -> None:
    (of_group,) = of(objective, group)
    assert abs(of_group.sum().item()) < 1e-12


@given(rewards, st.sampled_from([0, 1]))
@quickly
def test_squares_of_a_live_group_sum_to_g_minus_ddof(group: list[float], ddof: int) -> None:
    (of_group,) = of(with_std(MEAN, ddof=ddof), group)
    expected = 0 if len(set(group)) == 1 else len(group) - ddof
    assert of_group.square().sum().item() == pytest.approx(expected, rel=1e-12)


@given(rewards, st.floats(0.1, 50), st.floats(-5, 5), st.sampled_from([0, 1]))
@quickly
def test_std_scaled_advantages_do_not_see_the_unit_of_reward(
    group: list[float], factor: float, shift: float, ddof: int
) -> None:
    if len(set(group)) == 1:
        group = [*group, group[0] + 1]
    objective = with_std(MEAN, ddof=ddof)
    (before,), (after,) = of(objective, group), of(objective, [factor * r + shift for r in group])
    torch.testing.assert_close(before, after, rtol=1e-9, atol=1e-10)


@given(rewards, rewards, st.floats(0.1, 50))
@quickly
def test_batch_std_sees_the_other_groups_and_group_std_does_not(
    one: list[float], other: list[float], factor: float
) -> None:
    one = [*one, one[0] + 1]
    group_std, batch_std = with_std(MEAN), with_std(MEAN, "batch_std")
    spread_out = [factor * r + 100 for r in other]
    assert of(group_std, one, other)[0].equal(of(group_std, one, spread_out)[0])
    assert not of(batch_std, one, other)[0].equal(of(batch_std, one, spread_out)[0])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7, 8, 11, 16, 32])
@pytest.mark.parametrize("reward", [0.1, 0.3, 0.7, 1.1, -0.2, 1 / 3, 1e9 + 0.1, 0.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-4])
@pytest.mark.parametrize("baseline", [MEAN, LOO])
def test_equal_rewards_give_exactly_zero(
    size: int, reward: float, epsilon: float, baseline: Objective
) -> None:
    for objective in (
        baseline,
        with_std(baseline, ddof=0, epsilon=epsilon),
        with_std(baseline, ddof=1, epsilon=epsilon),
        with_std(baseline, "batch_std", ddof=1, epsilon=epsilon),
    ):
        (alone,) = of(objective, [reward] * size)
        assert alone.eq(0).all()
        beside, _ = of(objective, [reward] * size, [0.0, 1.0, 0.3])
        assert beside.eq(0).all()


def test_a_group_is_dead_by_its_rewards_and_not_by_its_std() -> None:
    rows = [Row(0.1, group=0)] * 11 + [Row(1.0, group=1)] * 2 + [Row(1.0, group=2), Row(1.0 + 1e-15, group=2)]
    dead = dead_groups(responses_of(rows), with_std(MEAN))
    assert dead.tolist() == [True] * 13 + [False] * 2


def test_a_singleton_has_no_baseline_but_itself() -> None:
    for objective in (MEAN, LOO, with_std(MEAN, ddof=1), with_std(LOO, ddof=1, epsilon=1e-6)):
        assert of(objective, [0.7], [0.0, 1.0])[0].tolist() == [0.0]


def test_an_unscorable_response_leaves_the_statistics() -> None:
    for objective in (MEAN, LOO, with_std(MEAN), with_std(MEAN, ddof=1), with_std(MEAN, "batch_std", ddof=1)):
        (clean,) = of(objective, [0.0, 1.0, 1.0])
        (holed,) = of(objective, [0.0, math.nan, 1.0, 1.0, math.nan])
        assert holed[[0, 2, 3]].equal(clean)
        assert holed[[1, 4]].tolist() == [0.0, 0.0]
    assert of(MEAN, [math.nan, math.nan])[0].tolist() == [0.0, 0.0]
    assert of(with_std(MEAN, ddof=1), [math.nan, 0.4])[0].tolist() == [0.0, 0.0]


def test_a_trajectory_counts_once_however_many_rows_it_has() -> None:
    single = [Row(0.0), Row(1.0), Row(1.0)]
    split = [Row(0.0), *[Row(1.0, sample_weight=1 / 3)] * 3, Row(1.0)]
    for objective in (MEAN, LOO, with_std(MEAN), with_std(MEAN, ddof=1), with_std(LOO, "batch_std", ddof=1)):
        once = advantages(responses_of(single), objective)
        rows = advantages(responses_of(split), objective)
        torch.testing.assert_close(rows, once[[0, 1, 1, 1, 2]], rtol=1e-12, atol=0)


@pytest.mark.parametrize("turns", [2, 9, 11, 18, 49])
def test_a_lone_trajectory_whose_turns_differ_is_still_one_sample(turns: int) -> None:
    rows = [Row(1.0, mask=(True,) * t, sample_weight=1 / turns) for t in range(turns)]
    shaped = LOO.replace(shaping=Shaping(overlong=Overlong(max_length=60, cache=60)))
    for objective in (
        shaped,
        with_std(shaped, ddof=1),
        with_std(shaped.replace(baseline=MEAN.baseline), ddof=1),
    ):
        assert advantages(responses_of(rows), objective).eq(0).all()


def test_epochs_and_batches_keep_to_themselves() -> None:
    rows = [Row(r, group=g, generation=b) for g, b, r in [(0, 0, 0.0), (0, 0, 1.0), (1, 1, 5.0), (1, 1, 9.0)]]
    batch_mean = Objective(baseline=Baseline(kind="batch_mean"))
    assert advantages(responses_of(rows), batch_mean).tolist() == [-0.5, 0.5, -2.0, 2.0]
    together = [replace(row, generation=0) for row in rows]
    assert advantages(responses_of(together), batch_mean).tolist() == [-3.75, -2.75, 1.25, 5.25]
    whitened = with_std(batch_mean, "batch_std")
    torch.testing.assert_close(
        advantages(responses_of(together), whitened).square().sum(), torch.tensor(4.0).double()
    )


def test_leave_one_out_is_the_mean_of_the_others() -> None:
    (loo,) = of(LOO, [1.0, 2.0, 6.0])
    assert loo.tolist() == pytest.approx([1 - 4.0, 2 - 3.5, 6 - 1.5], rel=1e-15)


def test_epsilon_is_added_to_the_std() -> None:
    (half,) = of(with_std(MEAN, epsilon=0.5), [0.0, 1.0])
    assert half.tolist() == [-0.5, 0.5]


def test_greedy_baseline() -> None:
    remax = named("remax")
    rows = [Row(0.25, greedy=True), Row(1.0), Row(0.0), Row(0.5, group=1), Row(0.5, group=1, greedy=True)]
    assert advantages(responses_of(rows), remax).tolist() == [0.0, 0.75, -0.25, 0.0, 0.0]


def test_greedy_rows_stay_out_of_the_statistics() -> None:
    rows = [Row(50.0, greedy=True), Row(1.0), Row(0.0)]
    for objective in (MEAN, LOO, with_std(MEAN), with_std(MEAN, "batch_std")):
        assert advantages(responses_of(rows), objective)[1:].equal(
            advantages(responses_of(rows[1:]), objective)
        )


def test_an_unscorable_greedy_response_gives_its_group_no_signal() -> None:
    rows = [Row(math.nan, greedy=True), Row(1.0), Row(0.0, group=1), Row(1.0, group=1, greedy=True)]
    assert advantages(responses_of(rows), named("remax")).tolist() == [0.0, 0.0, -1.0, 0.0]


@pytest.mark.parametrize(
    "rows",
    [
        [Row(1.0), Row(0.0, greedy=True), Row(0.0, group=1)],
        [Row(1.0), Row(0.0, greedy=True), Row(0.5, greedy=True)],
    ],
)
def test_every_group_needs_one_greedy_row(rows: list[Row]) -> None:
    with pytest.raises(BadObjective, match="exactly one greedy row per group; 1 of"):
        advantages(responses_of(rows), named("remax"))


def test_missing_columns_are_named() -> None:
    bare = replace(responses_of([Row(1.0), Row(0.0)]), advantage=None, greedy=None, reference_kl=None)
    with pytest.raises(MissingColumn, match="'advantage'") as caught:
        advantages(bare, named("ppo"))
    assert caught.value.column == "advantage"
    with pytest.raises(MissingColumn, match="'is_greedy'"):
        advantages(bare, named("remax"))
    with pytest.raises(MissingColumn, match="'logp_ref'"):
        advantages(bare, MEAN.replace(kl=KL(reward=RewardKL(coefficient=0.1))))


def test_kl_in_the_reward_comes_before_baseline_and_scale() -> None:
    responses = replace(
        responses_of([Row(1.0), Row(0.0), Row(0.5)]), reference_kl=torch.tensor([2.0, 0.0, 5.0]).double()
    )
    plain = Objective(kl=KL(reward=RewardKL(coefficient=0.1)))
    assert advantages(responses, plain).tolist() == pytest.approx([0.8, 0.0, 0.0], abs=1e-15)
    whitened = with_std(plain.replace(baseline=Baseline(kind="group_mean")))
    (expected,) = of(with_std(MEAN), [0.8, 0.0, 0.0])
    torch.testing.assert_close(advantages(responses, whitened), expected)


def test_reward_is_clipped_before_the_overlong_penalty() -> None:
    shaping = Shaping(clip=(-1.0, 1.0), overlong=Overlong(max_length=10, cache=4))
    rows = [Row(r, mask=(True,) * n) for r, n in [(5.0, 6), (5.0, 8), (-5.0, 10), (0.5, 30), (0.5, 0)]]
    assert advantages(responses_of(rows), Objective(shaping=shaping)).tolist() == [1.0, 0.5, -2.0, -0.5, 0.5]


def test_overlong_penalty_agrees_with_trl() -> None:
    rewards_of_trl = pytest.importorskip("trl.rewards")
    punish = rewards_of_trl.get_soft_overlong_punishment(max_completion_len=20, soft_punish_cache=8)
    lengths = list(range(30))
    rows = [Row(0.0, mask=(True,) * n) for n in lengths]
    ours = Objective(shaping=Shaping(overlong=Overlong(max_length=20, cache=8)))
    theirs = punish(completion_ids=[[7] * n for n in lengths])
    assert advantages(responses_of(rows), ours).tolist() == pytest.approx(theirs, rel=1e-15)


def factor_of_prompt(objective: Objective, p: float, G: int = 8) -> float:
    """E[sum_i A_i (r_i - p)] / (G p (1 - p)), by enumeration of the number of successes."""
    groups = [[1.0] * k + [0.0] * (G - k) for k in range(G + 1)]
    total = 0.0
    for k, (rewards_, of_group) in enumerate(zip(groups, of(objective, *groups), strict=True)):
        chance = math.comb(G, k) * p**k * (1 - p) ** (G - k)
        total += chance * sum(a * (r - p) for a, r in zip(of_group.tolist(), rewards_, strict=True))
    return total / (G * p * (1 - p))


@pytest.mark.parametrize(
    ("p", "ddof0", "ddof1"),
    [
        (0.02, 2.573, 2.407),
        (0.1, 2.328, 2.177),
        (0.5, 1.856, 1.736),
        (0.9, 2.328, 2.177),
        (0.98, 2.573, 2.407),
    ],
)
def test_weight_of_a_prompt_by_its_success_rate(p: float, ddof0: float, ddof1: float) -> None:
    assert factor_of_prompt(LOO, p) == pytest.approx(1.0, rel=1e-12)
    assert factor_of_prompt(MEAN, p) == pytest.approx(0.875, rel=1e-12)
    assert factor_of_prompt(with_std(MEAN), p) == pytest.approx(ddof0, abs=5e-4)
    assert factor_of_prompt(with_std(MEAN, ddof=1), p) == pytest.approx(ddof1, abs=5e-4)
    share_alive = 1 - p**8 - (1 - p) ** 8
    assert factor_of_prompt(with_std(MEAN), p) * p * (1 - p) <= 0.5
    assert share_alive * factor_of_prompt(LOO, p) / share_alive == pytest.approx(1.0)


def test_weight_of_a_prompt_tends_to_the_root_of_g_minus_1_over_itself() -> None:
    assert factor_of_prompt(with_std(MEAN), 1e-7) == pytest.approx(math.sqrt(7), rel=1e-5)


def test_the_reward_is_clipped_then_mapped_then_penalised() -> None:
    shaping = Shaping(
        clip=(0.0, 1.0), factor=10.0, offset=-5.0, overlong=Overlong(max_length=4, cache=2, penalty=1.0)
    )
    rows = [Row(3.0, mask=(True,) * 4), Row(-2.0, mask=(True,) * 3), Row(0.5, mask=(True,))]
    of_rows = advantages(responses_of(rows), Objective(shaping=shaping))
    assert of_rows.tolist() == [10.0 - 5.0 - 1.0, -5.0 - 0.5, 0.0]


def test_the_reward_clip_bounds_what_is_left_after_the_division_and_before_kl() -> None:
    objective = with_std(MEAN, ddof=1)
    clipped = objective.replace(scale=Scale(kind="group_std", ddof=1, reward_clip=(-0.3, 1.0)))
    free, bounded = of(objective, [0.0, 0.0, 0.0, 1.0])[0], of(clipped, [0.0, 0.0, 0.0, 1.0])[0]
    assert free.tolist() == pytest.approx([-0.5, -0.5, -0.5, 1.5])
    assert bounded.tolist() == pytest.approx([-0.3, -0.3, -0.3, 1.0])
    with_kl = clipped.replace(kl=KL(reward=RewardKL(coefficient=0.5, stage="after_scale")))
    rows = responses_of([Row(r) for r in (0.0, 0.0, 0.0, 1.0)])
    rows = replace(rows, reference_kl=torch.tensor([2.0, 0.0, 0.0, 0.0], dtype=torch.float64))
    assert advantages(rows, with_kl).tolist() == pytest.approx([-1.3, -0.3, -0.3, 1.0])


def test_where_nothing_is_left_after_a_division_there_is_no_reward_clip() -> None:
    for kind in ("gae", "logged"):
        fields = {"baseline": {"kind": kind}, "scale": {"reward_clip": [-1.0, 1.0]}}
        with pytest.raises(BadObjective, match="reward_clip does nothing"):
            from_dict(fields)


@quickly
@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 0.5, math.nan]), min_size=1, max_size=6), min_size=1, max_size=4
    ),
    st.sampled_from([Shaping(), Shaping(clip=(0.0, 0.5)), Shaping(factor=2.0, offset=-1.0)]),
)
def test_a_grid_of_choices_gives_what_each_gives_alone(groups: list[list[float]], shaping: Shaping) -> None:
    rows = [Row(reward=reward, group=at, update=0) for at, rewards in enumerate(groups) for reward in rewards]
    responses = responses_of(rows)
    scales = (
        Scale(),
        Scale(kind="group_std", ddof=1, epsilon=1e-4),
        Scale(kind="batch_std"),
        Scale(kind="group_std", clip=(-0.5, 0.5)),
        Scale(reward_clip=(-0.1, 0.1)),
    )
    kinds = ("group_mean", "leave_one_out", "none", "batch_mean")
    choices = [(Baseline(kind=kind), scale) for kind in kinds for scale in scales]
    for base in (Objective(shaping=shaping), Objective(shaping=shaping, name="other")):
        for (baseline, scale), made in zip(choices, advantages_under(responses, base, choices), strict=True):
            alone = advantages(responses, base.replace(baseline=baseline, scale=scale))
            assert torch.equal(made, alone), (baseline, scale)
