"""Groups, baselines and the rows that enter them: P08, P09, P13 to P15, P22 and P23 of the reports."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from builder import EOS, by_group, centre, checked, first_pass, healthy, ids, named, recentred


@pytest.mark.parametrize(("size", "groups"), [(8, 4), (4, 3)])
def test_a_fresh_group_key_per_response_is_reinforce_by_accident(tmp_path, size, groups) -> None:
    rows = healthy(size=size, groups=groups)
    for row in rows:
        row |= {"group_id": f"{row['group_id']}/{row['sample_index']}", "advantage": row["reward"]}
    found = named(checked(tmp_path / "run", rows), "group.singleton")
    n, whole = 12 * groups * size, 12 * groups
    assert found.severity == "error"
    assert found.rows == n
    assert f"{n} of {n} groups have one response" in found.summary
    assert "advantage is the raw reward" in found.summary
    assert (
        f"Grouping by prompt_id within a step gives {whole} groups, most of them of {size}." in found.summary
    )


def test_groups_of_one_in_some_steps_only(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        if row["step"] in (5, 6):
            row |= {"group_id": f"{row['group_id']}/{row['sample_index']}", "advantage": 0.0}
    found = named(checked(tmp_path / "run", rows), "group.singleton")
    assert found.severity == "warning"
    assert found.steps == (5, 6)
    assert "64 of 104 groups" in found.summary
    assert "Their advantage is 0." in found.summary


@pytest.mark.parametrize("over_rows", [True, False])
def test_turns_that_enter_the_group_mean_one_by_one(tmp_path, over_rows) -> None:
    rng = random.Random(1)
    rows = []
    for group in by_group(healthy(updates=1)):
        turns = []
        for row in group:
            n = rng.randint(1, 4)
            turns += [
                row | {"trajectory_id": f"{row['group_id']}:{row['sample_index']}", "turn": t}
                for t in range(n)
            ]
        rewards = [row["reward"] for row in (turns if over_rows else group)]
        mean = statistics.fmean(rewards)
        for row in turns:
            row["advantage"] = row["reward"] - mean
        rows += turns
    result = checked(tmp_path / "run", rows, objective={"name": "dr_grpo"})
    if not over_rows:
        assert "group.rows-not-trajectories" not in ids(result)
        return
    found = named(result, "group.rows-not-trajectories")
    apart = [
        (a, b)
        for group in by_group(rows)
        for a in [statistics.fmean(r["reward"] for r in group)]
        for b in [statistics.fmean({r["trajectory_id"]: r["reward"] for r in group}.values())]
        if abs(a - b) > 1e-9
    ]
    assert found.severity == "warning"
    assert f"In {len(apart)} of 48 groups" in found.summary
    means = [statistics.fmean(x) for x in zip(*apart, strict=True)]
    assert f"{means[0]:.2f} and {means[1]:.2f}" in found.summary


@pytest.mark.parametrize(("step", "count"), [(7, 3), (3, 1)])
def test_one_nan_reward_spoils_a_step(tmp_path, step, count) -> None:
    rows = healthy()
    for row in rows:
        if row["step"] == step:
            row["advantage"] = math.nan
            if row["sample_index"] == 0 and int(row["group_id"].split("-")[1]) < count:
                row["reward"] = math.nan
    result = checked(tmp_path / "run", rows)
    found = named(result, "reward.nan-spreads")
    assert found.severity == "error"
    assert found.steps == (step,)
    assert f"Step {step}: {2 * count} NaN rewards, 64 NaN advantages" in found.summary
    assert "Nothing was learned" not in found.summary


def test_nothing_is_learned_after_the_first_nan(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        if row["step"] >= 9:
            row["advantage"] = math.nan
            if row["step"] == 9 and row["sample_index"] == 2:
                row["reward"] = math.nan
    found = named(checked(tmp_path / "run", rows), "reward.nan-spreads")
    assert "Nothing was learned from step 9 on (4 steps)." in found.summary


def test_a_nan_component_under_a_number(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        if row["step"] == 4:
            row["reward_components"] = row["reward_components"] | {"format": math.nan}
    found = named(checked(tmp_path / "run", rows), "component.nan")
    assert found.rows == 64
    assert found.steps == (4,)
    assert "'format'" in found.summary


@pytest.mark.parametrize("every", [5, 11])
def test_rows_without_a_trainable_token_that_move_the_baseline(tmp_path, every) -> None:
    rows = healthy(updates=1, longest=39)
    bare = []
    for k, row in enumerate(rows):
        if k % every == 0:
            row |= {"loss_mask": [False] * row["length"], "reward": 0.0, "reward_components": {}}
            bare.append(id(row))
    for group in by_group(rows):
        centre(group)
    found = named(checked(tmp_path / "run", rows), "baseline.untrained-rows")
    shifts = []
    for group in by_group(rows):
        kept = [r["reward"] for r in group if id(r) not in bare]
        if 0 < len(kept) < len(group):
            shifts += [abs(statistics.fmean(r["reward"] for r in group) - statistics.fmean(kept))] * len(kept)
    assert found.severity == "warning"
    assert found.rows == len(bare)
    assert (
        f"{len(bare)} rows have no trainable token but move the baseline of {len(shifts)} siblings by "
        f"{statistics.fmean(shifts):.3g} on average"
    ) in found.summary


def test_rows_without_a_trainable_token_that_were_left_out(tmp_path) -> None:
    rows = healthy(updates=1)
    for group in by_group(rows):
        group[0] |= {"loss_mask": [False] * group[0]["length"]}
        centre(group[1:])
        group[0]["advantage"] = 0.0
    found = named(checked(tmp_path / "run", rows), "baseline.untrained-rows")
    assert found.severity == "info"
    assert "leave them out" in found.summary


def test_aborted_rollouts_that_train_as_wrong_answers(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        if row["sample_index"] == 3 and row["step"] > 6:
            row |= {"finish_reason": "abort", "reward": 0.0}
    result = checked(tmp_path / "run", recentred(rows, lambda row: None))
    found = named(result, "rollout.aborted-trained")
    assert found.rows == 24  # of the first inner pass
    assert found.steps == (7, 8, 9, 10, 11)
    assert "reward 0" in found.summary
    assert named(result, "baseline.untrained-rows").rows == 24


@pytest.mark.parametrize(("rate", "size"), [(0.18, 2), (0.1, 4)])
def test_groups_too_small_for_the_success_rate(tmp_path, rate, size) -> None:
    rows = healthy(rate=rate, size=size, groups=8, steps=20, updates=1)
    rows = recentred(rows, lambda row: row.update(reward=float(row["correct"]), reward_components={}))
    found = named(checked(tmp_path / "run", rows), "group.zero-signal")
    p = statistics.fmean(row["reward"] for row in rows)
    dead = [g for g in by_group(rows) if len({r["reward"] for r in g}) == 1]
    share = sum(r["length"] for g in dead for r in g) / sum(r["length"] for r in rows)
    assert found.severity == "info"
    assert found.rows == len(dead) * size
    assert f"{len(dead) / 160:.0%} of 160 groups carry no signal" in found.summary
    assert f"p = {p:.2f}, G = {size}: {p**size + (1 - p) ** size:.0%}" in found.summary
    assert f"G = 8 would give {p**8 + (1 - p) ** 8:.0%}" in found.summary
    assert f"They hold {share:.0%} of the loss tokens." in found.summary


def test_two_groups_of_one_prompt_that_were_merged(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        if row["step"] == 7 and row["group_id"] in ("7-1", "7-3"):
            row |= {"prompt_id": "p99", "prompt": "question 99", "sample_index": row["sample_index"] + 8}
            row["sample_index"] -= 8 if row["group_id"] == "7-1" else 0
            row["group_id"] = "7-1"
    found = named(checked(tmp_path / "run", recentred(rows, lambda row: None)), "group.merged")
    assert found.rows == 16
    assert found.steps == (7,)
    assert "1 of 47 groups have 16 responses where the group size is 8" in found.summary


def test_two_groups_of_one_prompt_with_one_baseline(tmp_path) -> None:
    rows = healthy(rate=0.5)
    for row in rows:
        if row["group_id"] in ("7-1", "7-3"):
            row |= {"prompt_id": "p99", "prompt": "question 99"}
            row |= {"reward": float(row["sample_index"] < (6 if row["group_id"] == "7-1" else 2))}
    for epoch in (0, 1):
        centre([r for r in rows if r["prompt_id"] == "p99" and r["epoch"] == epoch])
    result = checked(tmp_path / "run", rows)
    assert named(result, "group.pooled").rows == 16
    found = named(result, "prompt.two-groups")
    assert found.severity == "info"
    assert "1 prompts occur in more than one group of their step (1 of them in step 7)" in found.summary


@pytest.mark.parametrize("penalty", [0.01, 0.02])
def test_correct_answers_pushed_down_by_a_raw_baseline(tmp_path, penalty) -> None:
    rows = healthy(rate=0.8)
    for group in by_group(rows):
        raw = statistics.fmean(row["reward"] for row in group)
        for row in group:
            row["reward"] -= penalty * row["length"]
            row["reward_components"] = {}
        centre(group, lambda _, raw=raw: raw)
    found = named(checked(tmp_path / "run", rows), "advantage.correct-negative")
    down = [row for row in first_pass(rows) if row["correct"] and row["advantage"] < -1e-8]
    mean = {g[0]["group_id"]: statistics.fmean(r["reward"] for r in g) for g in by_group(rows)}
    opposed = sum(row["reward"] > mean[row["group_id"]] for row in down)
    assert found.severity == "warning"
    assert found.rows == len(down)
    assert f"{len(down)} correct rows have a negative advantage; {opposed} of them" in found.summary


def test_a_length_reward_in_characters(tmp_path) -> None:
    rng = random.Random(3)
    rows = healthy(updates=1)
    for row in rows:
        row["response"] = "x" * rng.randint(1, 4000)
        row["reward"] = -len(row["response"]) / 4000
        row["reward_components"] = {}
    found = named(checked(tmp_path / "run", recentred(rows, lambda row: None)), "reward.follows-characters")
    assert "(r = -1.00)" in found.summary
    assert "not in tokens" in found.summary


def test_the_end_id_of_the_builder_is_outside_its_vocabulary() -> None:
    assert all(EOS not in row["token_ids"][:-1] for row in healthy(steps=2))


@pytest.mark.parametrize(("size", "groups"), [(8, 4), (5, 3)])
@pytest.mark.parametrize("declared", [None, {"name": "dr_grpo"}])
def test_a_baseline_of_the_first_rollout_alone(tmp_path, size, groups, declared) -> None:
    rows = healthy(seed=5, size=size, groups=groups)
    for group in by_group(rows):
        centre(group)
        for row in group:
            row["advantage"] = row["reward"] - group[0]["reward"]
    result = checked(tmp_path / "run", rows, objective=declared)
    if declared is not None:
        # dr_grpo without its constant: what scales the loss has no part in the advantage.
        assert "they fit first_response" in named(result, "advantage.contradicts-declaration").summary
        return
    found = named(result, "advantage.not-centred")
    sums = [abs(sum(row["advantage"] for row in group)) for group in by_group(first_pass(rows))]
    alive = sum(any(row["advantage"] for row in group) for group in by_group(first_pass(rows)))
    off = [value for value in sums if value > 1e-9]
    assert found.severity == "warning"
    assert f"in {len(off)} of {alive} groups" in found.summary
    assert f"(median |sum| {statistics.median(off):.2g})" in found.summary
    assert "they fit first_response" in found.summary


def test_undeclared_advantages_that_sum_to_zero(tmp_path) -> None:
    assert "advantage.not-centred" not in ids(checked(tmp_path / "run", healthy(seed=6), objective=None))


@pytest.mark.parametrize("since", [6, 30])
def test_the_step_from_which_advantages_are_not_as_declared(tmp_path, since) -> None:
    rows = healthy(seed=52, steps=since + 5, size=4, groups=2)
    for row in rows:
        if row["step"] >= since:
            row["advantage"] = row["reward"]
    found = named(checked(tmp_path / "run", rows), "advantage.contradicts-declaration")
    said = (
        f"At {since - 1} of {since + 5} steps they are as declared; the first that differs is step {since}."
    )
    assert said in found.summary
    assert found.steps == tuple(range(since, since + 5))
