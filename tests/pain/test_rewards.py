"""What the reward is made of: P15, P17, P19, P44, P46, P47 of the public reports."""

from __future__ import annotations

import random
import statistics

import pytest
from builder import by_group, checked, extra, first_pass, healthy, ids, named, recentred


@pytest.mark.parametrize("weight", [2.0, 0.5])
def test_two_components_that_cancel(tmp_path, weight) -> None:
    def cancelled(row) -> None:
        sign = 1.0 if row["correct"] else -1.0
        row |= {"reward_components": {"accuracy": weight * sign, "format": -weight * sign}, "reward": 0.0}

    result = checked(tmp_path / "run", recentred(healthy(rate=0.5), cancelled))
    found = named(result, "reward.components-cancel")
    assert found.severity == "warning"
    assert "cancel in 100% of the" in found.summary
    assert f"'accuracy' ({-weight:g} to {weight:g})" in found.summary
    constant = named(result, "reward.constant")
    assert constant.rows == 384
    assert "The reward is 0 in every row of every step (12 of 12 steps)" in constant.summary


def test_components_that_cancel_in_part_of_the_groups(tmp_path) -> None:
    rows = healthy(rate=0.5)
    for row in rows:
        accuracy, form = float(row["correct"]), 0.2 * (row["sample_index"] % 3)
        if int(row["group_id"].split("-")[1]) < 3:
            form = -accuracy
        row |= {"reward_components": {"accuracy": accuracy, "format": form}, "reward": accuracy + form}
    found = named(checked(tmp_path / "run", recentred(rows, lambda row: None)), "reward.components-cancel")
    both = [
        g
        for g in by_group(first_pass(rows))
        if all(len({r["reward_components"][c] for r in g}) > 1 for c in ("accuracy", "format"))
    ]
    flat = [g for g in both if len({r["reward"] for r in g}) == 1]
    assert found.rows == 8 * len(flat)
    assert f"cancel in {len(flat) / len(both):.0%} of the {len(both)} groups" in found.summary


def test_one_value_for_the_whole_batch(tmp_path) -> None:
    rng = random.Random(0)
    of_step = {step: rng.random() for step in range(1, 13)}
    rows = recentred(healthy(), lambda row: row.update(reward=of_step[row["step"]], reward_components={}))
    found = named(checked(tmp_path / "run", rows), "reward.broadcast")
    assert found.rows == 384
    assert "12 of 12 steps, and differs between steps (12 values)" in found.summary


def test_one_value_of_a_component_for_the_whole_batch(tmp_path) -> None:
    rng = random.Random(0)
    of_step = {step: rng.random() for step in range(1, 13)}

    def broadcast(row) -> None:
        row["reward_components"] = row["reward_components"] | {"judge": of_step[row["step"]]}
        row["reward"] = sum(row["reward_components"].values())

    found = named(checked(tmp_path / "run", recentred(healthy(), broadcast)), "reward.broadcast")
    assert found.column == "reward_components"
    assert found.summary.startswith("Component 'judge' is the same in every row of a step in 12 of 12 steps")


def test_accuracy_of_other_rows_after_sorting_by_length(tmp_path) -> None:
    rows = healthy(updates=1, rate=0.4)
    for step in range(1, 13):
        here = [row for row in rows if row["step"] == step]
        values = [row["correct"] for row in sorted(here, key=lambda row: row["length"])]
        for row, value in zip(here, values, strict=True):
            row["reward"] = float(row["correct"])
            row["reward_components"] = {}
            row["correct"] = value
    found = named(checked(tmp_path / "run", recentred(rows, lambda row: None)), "column.permuted")
    wrong = [row for row in rows if row["correct"] != bool(row["reward"])]
    assert found.severity == "error"
    assert found.column == "correct"
    assert found.rows == len(wrong)
    assert f"disagrees with the reward in {len(wrong) / len(rows):.0%} of 384 rows" in found.summary
    assert "0% after re-sorting by length" in found.summary


@pytest.mark.parametrize("place", ["reward_components", "extra"])
def test_extra_fields_of_other_rows(tmp_path, place) -> None:
    rng = random.Random(5)
    rows = recentred(healthy(updates=1, rate=0.3), lambda row: row.update(reward=float(row["correct"])))
    for step in range(1, 13):
        here = [row for row in rows if row["step"] == step]
        values = [row["reward"] for row in here]
        rng.shuffle(values)
        for row, value in zip(here, values, strict=True):
            row["reward_components"] = {}
            row[place] = {"acc": value} if place == "reward_components" else extra(acc=value, note="x")
    result = checked(tmp_path / "run", rows)
    found = named(result, "column.permuted")
    assert found.column == place
    assert "'acc' disagrees" in found.summary


def test_accuracy_that_is_another_measure_is_no_permutation(tmp_path) -> None:
    rng = random.Random(6)
    rows = recentred(healthy(updates=1), lambda row: row.update(correct=rng.random() < 0.4))
    assert "column.permuted" not in ids(checked(tmp_path / "run", rows))


@pytest.mark.parametrize(("share", "limit"), [(1.0, 32), (0.8, 64)])
def test_every_answer_is_cut_before_its_result(tmp_path, share, limit) -> None:
    rng = random.Random(1)
    rows = healthy(updates=1, longest=limit)
    for row in rows:
        if rng.random() < share:
            n = limit
            row["token_ids"] = [rng.randrange(10, 5000) for _ in range(n)]
            for name in ("logp_old", "logp_ref", "logp_sampler", "logp_theta"):
                row[name] = [-1.0 - 0.001 * rng.random()] * n if name == "logp_old" else [-1.0] * n
            row["logp_theta"] = row["logp_old"]
            row |= {"loss_mask": [True] * n, "length": n, "entropy": [1.0] * n, "finish_reason": "length"}
            row |= {"reward": 0.0, "reward_components": {}, "correct": False}
    found = named(checked(tmp_path / "run", recentred(rows, lambda row: None)), "length.truncated")
    cut = [row for row in rows if row["finish_reason"] == "length"]
    good = sum(row["reward"] > 0 for row in cut)
    assert found.rows == len(cut)
    said = "none of them scored above 0" if not good else f"{good} of them scored above 0"
    assert f"{len(cut) / 384:.0%} of 384 rows are truncated at {limit} tokens; {said}" in found.summary
    assert (f"min = max = {limit}" in found.summary) == (share == 1.0)


def test_truncated_rows_that_are_masked_in_part_of_the_log(tmp_path) -> None:
    rows = healthy(updates=1, longest=12)
    for row in rows:
        if row["finish_reason"] == "length" and row["step"] > 4:
            row["loss_mask"] = [False] * row["length"]
    found = named(checked(tmp_path / "run", rows), "mask.truncated-differs")
    cut = [row for row in rows if row["finish_reason"] == "length"]
    out = sum(row["step"] > 4 for row in cut)
    assert f"Of {len(cut)} truncated rows {out} take no loss and {len(cut) - out} do" in found.summary


def test_wrong_answers_grow_while_their_tokens_get_cheaper(tmp_path) -> None:
    rows = []
    for step in range(1, 13):
        for row in healthy(seed=step, steps=1, shortest=4 * step, longest=12 * step, updates=1, rate=0.5):
            rows.append(row | {"step": step, "update": step, "group_id": f"{step}/{row['group_id']}"})
    found = named(checked(tmp_path / "run", rows), "length.wrong-cheaper")
    assert found.severity == "info"
    assert "falls as 1/length" in found.summary
    wrong = [row["length"] for row in rows if row["advantage"] < 0]
    assert found.rows == len(wrong)


@pytest.mark.parametrize(("since", "share"), [(9, 0.25), (5, 0.6)])
def test_text_that_repeats_itself_since_a_step(tmp_path, since, share) -> None:
    rng = random.Random(2)
    rows = healthy(updates=1, shortest=30, longest=60)
    loops = []
    for row in rows:
        if row["step"] >= since and rng.random() < share:
            row["token_ids"] = [7 + t % 3 for t in range(row["length"] - 1)] + [row["token_ids"][-1]]
            row |= {"reward": row["reward"] + 0.5, "reward_components": {}}
            loops.append(row)
    found = named(checked(tmp_path / "run", recentred(rows, lambda row: None)), "text.repeats")
    late = sum(row["step"] >= since for row in rows)
    mean = {g[0]["group_id"]: statistics.fmean(r["reward"] for r in g) for g in by_group(rows)}
    above = statistics.fmean(row["reward"] - mean[row["group_id"]] for row in loops)
    assert found.severity == "warning"
    assert found.rows == len(loops)
    assert found.summary.startswith(
        f"From step {since}: {len(loops) / late:.0%} of {late} rows of 16 tokens or more repeat > 60% of "
        "their 4-grams"
    )
    assert f"their reward is {above:.2g} above the mean of their groups" in found.summary
