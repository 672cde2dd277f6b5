"""Groups without signal against loops, enumeration and simulated runs of known success rates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loose import write_loose
from synthetic import rollouts, write

from audit.analyses.samples import Samples, samples_of
from audit.analyses.visits import blocks, left_out_rate, neighbours
from audit.analyses.zero_expected import by_size, expected, predicted_alike
from audit.analyses.zero_groups import group_breakdown
from audit.errors import MissingColumn
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named


def made(groups: list[tuple[int, float, list[float]]]) -> Samples:
    """Samples of groups given as (prompt, step, rewards); success is a reward above a half."""
    reward = np.array([r for _, _, rewards in groups for r in rewards])
    return Samples(
        reward=reward,
        group=np.repeat(np.arange(len(groups)), [len(rewards) for _, _, rewards in groups]),
        correct=(reward > 0.5).astype(float),
        correct_is="",
        tokens=np.ones(len(reward)),
        of_row=np.arange(len(reward)),
        group_of_row=np.repeat(np.arange(len(groups)), [len(rewards) for _, _, rewards in groups]),
        prompt=np.array([prompt for prompt, _, _ in groups]),
        step=np.array([step for _, step, _ in groups], dtype=float),
    )


def drawn(rng, prompts: int, visits: int, size: int, rate) -> Samples:
    return made(
        [
            (p, v, (rng.random(size) < rate(p, v)).astype(float).tolist())
            for v in range(visits)
            for p in range(prompts)
        ]
    )


GROUP = st.tuples(
    st.integers(-1, 2), st.integers(0, 9), st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=3)
)


def slow_neighbours(samples: Samples, g: int, most: int) -> list[int]:
    if samples.prompt[g] < 0:
        return []
    same = [h for h in range(samples.num_groups) if samples.prompt[h] == samples.prompt[g]]
    same.sort(key=lambda h: (samples.step[h], h))
    at = same.index(g)
    turns = itertools.chain.from_iterable((d, -d) for d in range(1, most + 1))
    return [same[at + d] for d in turns if 0 <= at + d < len(same)][:most]


@given(st.lists(GROUP, min_size=1, max_size=8), st.integers(1, 3))
def test_neighbours_are_the_nearest_other_visits_in_time(groups, most) -> None:
    samples = made(groups)
    near = neighbours(samples, most)
    for g in range(len(groups)):
        assert [h for h in near[g].tolist() if h >= 0] == slow_neighbours(samples, g, most)


@given(st.lists(GROUP, min_size=1, max_size=8))
def test_the_prediction_is_the_share_of_alike_subsets_of_the_other_visits(groups) -> None:
    samples = made(groups)
    for g, value in enumerate(predicted_alike(samples)):
        near = slow_neighbours(samples, g, 2)
        pool = [r for h in near for r in groups[h][2]]
        size = len(groups[g][2])
        if len(near) < 2 or len(pool) < size:
            assert np.isnan(value)
            continue
        subsets = list(itertools.combinations(pool, size))
        assert value == pytest.approx(sum(len(set(s)) == 1 for s in subsets) / len(subsets))


@given(st.lists(GROUP, min_size=1, max_size=8))
def test_the_left_out_rate_is_that_of_the_neighbours(groups) -> None:
    samples = made(groups)
    for g, rate in enumerate(left_out_rate(samples, neighbours(samples))):
        pool = [r > 0.5 for h in slow_neighbours(samples, g, 2) for r in groups[h][2]]
        assert np.isnan(rate) if not pool else rate == pytest.approx(sum(pool) / len(pool))


@given(st.lists(GROUP, min_size=1, max_size=8), st.integers(2, 5))
def test_another_size_is_estimated_from_consecutive_visits(groups, size) -> None:
    samples = made(groups)
    code = blocks(samples, size)
    total = covered = 0.0
    for block in np.unique(code):
        members = np.flatnonzero(code == block).tolist()
        assert len({groups[h][0] for h in members}) == 1
        pool = [r for h in members for r in groups[h][2]]
        if len(pool) >= size:
            subsets = list(itertools.combinations(pool, size))
            total += len(members) * sum(len(set(s)) == 1 for s in subsets) / len(subsets)
            covered += len(members)
    (share,) = by_size(samples, [size])
    assert share.share.n == covered
    assert share.groups == len(groups)
    assert share.share.value == (pytest.approx(total / covered) if covered else None)


def test_estimates_are_unbiased_and_their_intervals_cover() -> None:
    rng = np.random.default_rng(5)
    rates = np.linspace(0.02, 0.9, 30)
    truth = {size: float(np.mean(rates**size + (1 - rates) ** size)) for size in (4, 8, 16)}
    found, covers, differences = {4: [], 8: [], 16: []}, 0, []
    for _ in range(60):
        samples = drawn(rng, len(rates), 4, 8, lambda p, v: rates[p])
        held = expected(samples, predicted_alike(samples))
        differences.append(held.difference.value)
        covers += held.difference.low <= 0.0 <= held.difference.high
        for share in by_size(samples, list(found)):
            found[share.group_size].append(share.share.value)
    for size, values in found.items():
        assert np.mean(values) == pytest.approx(truth[size], abs=4 * np.std(values) / math.sqrt(60))
    assert abs(np.mean(differences)) < 4 * np.std(differences) / math.sqrt(60)
    assert covers >= 52


def test_groups_whose_responses_are_copies_are_more_alike_than_predicted() -> None:
    rng = np.random.default_rng(1)
    groups = [(p, v, [float(rng.random() < 0.5)] * 8) for v in range(5) for p in range(30)]
    held = expected(made(groups), predicted_alike(made(groups)))
    assert held.observed.value == 1.0
    assert held.difference.low > 0.2


def breakdown(tmp_path, data, objective=None, **options):
    return group_breakdown(RunRows.read(write(tmp_path / "run", data, "grpo")), objective, **options)


def test_shares_and_costs_are_counts_of_a_loop(tmp_path) -> None:
    data = rollouts()
    result = breakdown(tmp_path, data)
    groups: dict[str, list[dict]] = {}
    for row in data:
        if row["epoch"] == 0:
            groups.setdefault(row["group_id"], []).append(row)
    rewards = [{row["reward"] for row in group} for group in groups.values()]
    alike = [group for group, r in zip(groups.values(), rewards, strict=True) if len(r) == 1]
    zero = result.zero_signal
    assert zero.all.value == pytest.approx(len(alike) / len(groups))
    assert zero.right.value == pytest.approx(sum(r == {1.0} for r in rewards) / len(groups))
    assert zero.wrong.value == pytest.approx(sum(r == {0.0} for r in rewards) / len(groups))
    assert zero.other.value == 0.0
    assert zero.other.high == pytest.approx(1 - 0.025 ** (1 / len({row["prompt_id"] for row in data})))
    assert result.cost.samples == sum(map(len, alike))
    assert result.cost.tokens == sum(row["length"] for group in alike for row in group)
    tokens = sum(row["length"] for group in groups.values() for row in group)
    assert result.cost.tokens_share.value == pytest.approx(result.cost.tokens / tokens)
    assert result.refill.drawn_per_kept.value == pytest.approx(len(groups) / (len(groups) - len(alike)))
    assert sum(part.observed.n for part in result.by_step) == len(groups)
    total = sum(part.observed.value * part.observed.n for part in result.by_step)
    assert total == pytest.approx(len(alike))


def test_an_objective_may_pull_where_rewards_are_equal(tmp_path) -> None:
    plain = breakdown(tmp_path / "a", rollouts(), named("grpo").replace(kl=named("dapo").kl))
    assert plain.silenced.without_weight.value == plain.zero_signal.all.value
    assert plain.silenced.alike_with_weight.value == 0.0
    assert plain.silenced.square_share.value == 0.0
    pulled = breakdown(tmp_path / "b", rollouts(), named("reinforce"))
    assert pulled.silenced.alike_with_weight.value == pytest.approx(
        pulled.zero_signal.right.value / pulled.zero_signal.all.value
    )
    assert pulled.silenced.square_share.value > 0


def test_turns_of_a_trajectory_are_one_sample(tmp_path) -> None:
    data = [row | {"trajectory_id": f"{row['group_id']}/{row['sample_index'] // 2}"} for row in rollouts()]
    for row in data:
        row["turn"], row["sample_index"] = row["sample_index"] % 2, row["sample_index"] // 2
        row["reward"] = float(row["sample_index"] % 2)
    result = breakdown(tmp_path, data)
    assert (result.group_size, result.shapes.expected_size) == (4, 4)
    assert result.samples == 4 * result.groups
    assert result.shapes.repeated_samples == 0
    samples = samples_of(RunRows.read(write(tmp_path / "again", data)))
    assert samples.tokens.sum() == sum(row["length"] for row in data if row["epoch"] == 0)


def test_irregular_groups_are_counted(tmp_path) -> None:
    data = rollouts(steps=6, groups=4, epochs=1)
    by_group: dict[str, list[dict]] = {}
    for row in data:
        row["prompt_id"] = f"{row['group_id']}"
        by_group.setdefault(row["group_id"], []).append(row)
    lost = by_group["0-0"].pop()
    data.remove(lost)
    for row in by_group["0-1"]:
        row["group_id"] = "0-2"
    by_group["1-0"][0]["prompt_id"] = "another"
    by_group["1-1"][0]["step"] = 6
    by_group["1-2"][1]["sample_index"] = 0
    for row in by_group["2-1"]:
        row["prompt_id"] = "2-0"
    for a, b in zip(by_group["3-0"], by_group["3-1"], strict=True):
        b |= {"prompt_id": a["prompt_id"], "step": 5, "reward": a["reward"]}
        b |= {k: a[k] for k in ("response", "token_ids", "length", "loss_mask", "logp_old", "logp_ref")}
        b["logp_theta"] = a["logp_theta"]
    by_group["4-0"][3]["reward"] = None
    shapes = breakdown(tmp_path, data, sizes=[8]).shapes
    assert (shapes.smaller, shapes.larger, shapes.singletons) == (1, 1, 0)
    assert {(each.size, each.groups) for each in shapes.sizes} == {(8, 21), (7, 1), (16, 1)}
    assert shapes.mixed_prompts == 2
    assert shapes.several_steps == 1
    assert shapes.repeated_samples == 1 + 8
    assert shapes.same_prompt_in_step == 2
    assert shapes.copies == 1
    assert (shapes.unscorable, shapes.touched_by_unscorable, shapes.ungrouped) == (1, 1, 0)


def test_without_groups_nothing_is_said(tmp_path) -> None:
    data = [row | {"group_id": None} for row in rollouts(steps=2)]
    with pytest.raises(MissingColumn, match="group_id"):
        group_breakdown(RunRows.read(write_loose(tmp_path / "run", data)))


def test_prompts_seen_once_predict_nothing_and_it_is_said(tmp_path) -> None:
    data = rollouts(steps=3, epochs=1)
    for row in data:
        row["prompt_id"] = row["group_id"]
    result = breakdown(tmp_path, data)
    assert result.expected is None
    assert all(part.predicted.value is None for part in result.by_step)
    assert any("visited three times" in skip.needs for skip in result.skipped)


def test_a_log_without_any_reward_gives_no_share(tmp_path) -> None:
    result = breakdown(tmp_path, [row | {"reward": None} for row in rollouts(steps=2)])
    assert (result.groups, result.zero_signal.all.value) == (0, None)
    assert result.shapes.unscorable == 64
