"""Advantages over other rows than the groups: the property, whatever put the rows elsewhere."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest
from synthetic import Rows, centred, rollouts, standardised, with_advantages, write

from audit.analyses.infer import Inference, infer
from audit.analyses.infer_blocks import centring
from audit.analyses.infer_problem import Problem
from audit.analyses.regrouped import regrouped
from audit.facts.rows import RunRows
from audit.objectives.objective import Objective


def asked(path, rows: Rows) -> Inference:
    for row in rows:
        row["advantage"] = float(np.float32(row["advantage"]))
    return infer(RunRows.read(write(path, rows)), None)


def graded(prompt: str, text: str, rng: random.Random) -> float:
    return round(rng.random(), 3)


def shuffled(rows: Rows, make, size: int = 8, seed: int = 0) -> Rows:
    """Advantages of blocks of rows that were shuffled within their step."""
    rng = random.Random(seed)
    steps: dict[int, Rows] = {}
    for row in rows:
        steps.setdefault(row["step"], []).append(row)
    for step in steps.values():
        order = rng.sample(step, len(step))
        for k in range(0, len(order), size):
            block = order[k : k + size]
            for row, advantage in zip(block, make([row["reward"] for row in block]), strict=True):
                row["advantage"] = advantage
    return rows


@pytest.mark.parametrize("make", [centred, standardised(0, 0.0), standardised(1, 1e-4)])
def test_sets_that_the_log_does_not_name_are_recognised_by_their_values(tmp_path, make) -> None:
    found = asked(tmp_path / "b", shuffled(rollouts(seed=2, prompts=4), make))
    assert found.status == "fits"
    assert found.best is not None
    assert found.best.grouping == "sets of 8 rows of a batch that the log does not name"
    sound = asked(tmp_path / "a", with_advantages(rollouts(), make))
    looked = regrouped(sound, found)
    assert [cause.id for cause in looked.causes] == ["data.grouping"]
    assert "of B were formed over sets of 8 rows" in looked.causes[0].summary
    assert looked.causes[0].evidence["a"] == 0.0
    assert looked.causes[0].evidence["b"] > 0.9
    swapped = regrouped(found, sound).causes[0]
    assert "of A were formed over sets of 8 rows" in swapped.summary
    assert swapped.confidence == looked.causes[0].confidence


def test_rewards_of_many_values_show_it_by_their_sums_with_less_confidence(tmp_path) -> None:
    rows = shuffled(rollouts(reward=graded), standardised(0, 0.0))
    found = asked(tmp_path / "b", rows)
    assert found.status == "none_fits"
    sound = asked(tmp_path / "a", with_advantages(rollouts(seed=3, reward=graded), standardised(0, 0.0)))
    (cause,) = regrouped(sound, found).causes
    assert cause.id == "data.grouping"
    assert "were not formed over its groups" in cause.summary
    assert cause.confidence < 0.75


def test_a_batch_mean_is_another_baseline_and_not_another_grouping(tmp_path) -> None:
    rows = rollouts(reward=graded)
    for step in {row["step"] for row in rows}:
        held = [row for row in rows if row["step"] == step]
        mean = statistics.fmean(row["reward"] for row in held)
        for row in held:
            row["advantage"] = row["reward"] - mean
    found = asked(tmp_path / "b", rows)
    sound = asked(tmp_path / "a", with_advantages(rollouts(reward=graded), centred))
    assert regrouped(sound, found).causes == []


def test_advantages_that_nothing_explains_are_not_called_another_grouping(tmp_path) -> None:
    rows = rollouts(reward=graded)
    rng = random.Random(8)
    for row in rows:
        row["advantage"] = row["reward"] + rng.gauss(0.0, 0.3)
    noise = asked(tmp_path / "b", rows)
    sound = asked(tmp_path / "a", with_advantages(rollouts(reward=graded), centred))
    assert noise.status == "none_fits"
    assert regrouped(sound, noise).causes == []


def test_the_same_in_both_runs_is_a_note_and_no_cause(tmp_path) -> None:
    make = standardised(0, 0.0)
    sides = [asked(tmp_path / str(seed), shuffled(rollouts(seed=seed), make)) for seed in (1, 2)]
    looked = regrouped(*sides)
    assert looked.causes == []
    assert "both runs" in looked.notes[0]


def test_centring_counts_as_a_slow_loop_does(tmp_path) -> None:
    rows = shuffled(rollouts(seed=4, reward=graded), centred)
    for row in rows:
        row["advantage"] = float(np.float32(row["advantage"]))
    read = RunRows.read(write(tmp_path / "run", rows))
    found = centring(Problem(read.logged_advantage, read.responses(Objective()), ~read.greedy))

    def balanced(key) -> tuple[int, float]:
        held: dict[object, list[float]] = {}
        for row in rows:
            held.setdefault(key(row), []).append(row["advantage"])
        live = [values for values in held.values() if len(values) > 1 and any(values)]
        sums = [abs(sum(values)) <= 1e-4 * sum(map(abs, values)) for values in live]
        return len(live), sum(sums) / len(sums)

    assert (found.groups, found.group_share) == balanced(lambda row: (row["group_id"], row["epoch"]))
    assert (found.batches, found.batch_share) == balanced(lambda row: row["step"])
    assert found.batch_share == 1.0
