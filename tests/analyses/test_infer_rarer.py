"""Advantages made in unusual ways, by slow loops over groups; the inference must name each way."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from synthetic import Rows, rollouts, write

from audit.analyses.infer import Inference, infer
from audit.analyses.infer_candidate import FIRST
from audit.facts.rows import RunRows
from audit.objectives.objective import Objective, Overlong, Shaping

Key = Callable[[dict], object]


def by_group(row: dict) -> object:
    return row["group_id"], row["epoch"]


def sets(rows: Rows, key: Key = by_group) -> Iterable[Rows]:
    held: dict[object, Rows] = {}
    for row in rows:
        held.setdefault(key(row), []).append(row)
    return held.values()


def standard(values: list[float], ddof: int, epsilon: float) -> list[float]:
    """(x - mean) / (std + epsilon); 0 where all are equal."""
    if max(values) == min(values):
        return [0.0] * len(values)
    mean = statistics.fmean(values)
    std = math.sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - ddof))
    return [(x - mean) / (std + epsilon) for x in values]


def give(rows: Rows, values: Iterable[float]) -> None:
    for row, value in zip(rows, values, strict=True):
        row["advantage"] = float(np.float32(value))


def asked(tmp_path, rows: Rows, declared: Objective | None = None, **manifest: object) -> Inference:
    return infer(RunRows.read(write(tmp_path / "run", rows, **manifest)), declared)


def named(found: Inference) -> dict[str, object]:
    assert found.status == "fits"
    assert found.best is not None
    assert found.best.residual < 2e-5
    return {field: getattr(found.best, field) for field in found.best.__struct_fields__}


def kl(row: dict) -> float:
    """Σ (log pi_old - log pi_ref), from the float32 log-probs that the log holds."""
    pairs = zip(row["logp_old"], row["logp_ref"], strict=True)
    return sum(float(np.float32(old)) - float(np.float32(ref)) for old, ref in pairs)


def graded(prompt: str, text: str, rng: random.Random) -> float:
    """A reward of many values."""
    return round(rng.random(), 3)


def test_kl_in_a_reward_that_is_divided_by_a_std(tmp_path) -> None:
    rows = rollouts(steps=6)
    for group in sets(rows):
        give(group, standard([row["reward"] - 0.05 * kl(row) for row in group], 1, 1e-4))
    found = named(asked(tmp_path, rows))
    assert found["reward_kl"] == pytest.approx(0.05, rel=1e-3)
    assert (found["kl"], found["enters"]) == ("old k1", "reward")
    assert (found["baseline"], found["scale"], found["ddof"]) == ("group_mean", "group_std", 1)
    assert found["epsilon"] == pytest.approx(1e-4)


def test_kl_after_the_scale(tmp_path) -> None:
    rows = rollouts(steps=6)
    for group in sets(rows):
        made = standard([row["reward"] for row in group], 0, 1e-6)
        give(group, (a - 0.02 * kl(row) for a, row in zip(made, group, strict=True)))
    found = named(asked(tmp_path, rows))
    assert found["reward_kl"] == pytest.approx(0.02, rel=1e-3)
    assert (found["enters"], found["scale"], found["ddof"]) == ("after_scale", "group_std", 0)


@pytest.mark.parametrize("divided", [False, True])
def test_a_penalty_of_long_responses(tmp_path, divided) -> None:
    rows = rollouts(steps=6)
    for group in sets(rows):
        shaped = [row["reward"] - 0.8 * min(max((row["length"] - 11) / 6, 0.0), 1.0) for row in group]
        give(group, standard(shaped, 0, 0.0) if divided else (x - statistics.fmean(shaped) for x in shaped))
    found = named(asked(tmp_path, rows))
    penalty = found["overlong"]
    assert (penalty.start, penalty.full) == (11, 17)
    assert penalty.penalty == pytest.approx(0.8, rel=1e-3)
    assert found["baseline"] == "group_mean"


def test_the_found_penalty_is_an_objective(tmp_path) -> None:
    rows = rollouts(steps=6)
    for group in sets(rows):
        shaped = [row["reward"] - 0.5 * min(max((row["length"] - 12) / 8, 0.0), 1.0) for row in group]
        give(group, (x - statistics.fmean(shaped) for x in shaped))
    found = asked(tmp_path, rows)
    assert found.best is not None
    objective = found.best.objective(Objective())
    assert objective is not None
    assert objective.shaping.overlong == Overlong(max_length=20, cache=8, penalty=0.5)
    assert infer(RunRows.read(write(tmp_path / "again", rows)), objective).agrees is True


@pytest.mark.parametrize("divided", [False, True])
def test_a_penalty_that_the_baseline_does_not_see(tmp_path, divided) -> None:
    rows = rollouts(steps=6)
    for group in sets(rows):
        raw = [row["reward"] for row in group]
        mean, std = statistics.fmean(raw), statistics.pstdev(raw)
        scale = std if divided and std > 0 else 1.0
        penalties = [0.5 * min(max((row["length"] - 12) / 4, 0.0), 1.0) for row in group]
        give(group, ((x - p - mean) / scale for x, p in zip(raw, penalties, strict=True)))
    found = named(asked(tmp_path, rows))
    penalty = found["overlong"]
    assert (penalty.start, penalty.full) == (12, 16)
    assert penalty.penalty == pytest.approx(0.5, rel=1e-3)
    assert found["enters"] == "outside"


def test_a_price_of_characters_is_not_one_of_tokens(tmp_path) -> None:
    rng = random.Random(5)
    rows = rollouts(steps=6)
    for row in rows:
        row["response"] = "x" * (row["length"] * 2 + rng.randrange(9))
    for group in sets(rows):
        give(group, standard([row["reward"] - 0.003 * len(row["response"]) for row in group], 1, 0.0))
    found = named(asked(tmp_path, rows))
    assert found["length_unit"] == "character"
    assert found["length"] == pytest.approx(-0.003, rel=1e-3)


def with_components(rows: Rows) -> Rows:
    rng = random.Random(9)
    for row in rows:
        row["reward_components"] = {"right": float(rng.random() < 0.4), "form": round(rng.random(), 2)}
        row["reward"] = sum(row["reward_components"].values())
    return rows


def test_the_logged_reward_is_the_plain_sum_and_the_advantages_are_of_a_weighted_one(tmp_path) -> None:
    rows = with_components(rollouts(steps=6))
    for group in sets(rows):
        parts = [row["reward_components"] for row in group]
        mixed = [0.7 * part["right"] + 0.3 * part["form"] for part in parts]
        give(group, (x - statistics.fmean(mixed) for x in mixed))
    found = named(asked(tmp_path, rows))
    assert found["weights"] == pytest.approx({"right": 0.7, "form": 0.3}, rel=1e-3)


def test_behind_a_std_weights_are_known_up_to_a_factor(tmp_path) -> None:
    rows = with_components(rollouts(steps=6))
    for group in sets(rows):
        parts = [row["reward_components"] for row in group]
        give(group, standard([0.7 * part["right"] + 0.3 * part["form"] for part in parts], 1, 1e-8))
    found = asked(tmp_path, rows)
    weights = named(found)["weights"]
    assert weights["right"] / weights["form"] == pytest.approx(7 / 3, rel=1e-3)
    assert any("weights of the components" in said for said in found.not_identifiable)


def test_each_component_with_its_own_std(tmp_path) -> None:
    rows = with_components(rollouts(steps=6))
    for group in sets(rows):
        right = standard([row["reward_components"]["right"] for row in group], 0, 0.0)
        form = standard([row["reward_components"]["form"] for row in group], 0, 0.0)
        give(group, (r + 0.25 * f for r, f in zip(right, form, strict=True)))
    found = named(asked(tmp_path, rows))
    assert found["per_component"] is True
    assert found["weights"] == pytest.approx({"right": 1.0, "form": 0.25}, rel=1e-3)


def test_a_baseline_of_one_component_alone(tmp_path) -> None:
    rows = with_components(rollouts(steps=6))
    for group in sets(rows):
        mean = statistics.fmean(row["reward_components"]["right"] for row in group)
        give(group, (row["reward"] - mean for row in group))
    found = named(asked(tmp_path, rows))
    assert found["enters"] == "baseline"
    assert found["weights"] == pytest.approx({"right": 1.0, "form": 0.0}, abs=1e-6)


def test_a_declared_shaping_that_was_not_applied(tmp_path) -> None:
    rows = rollouts(steps=6)
    for group in sets(rows):
        give(group, standard([row["reward"] for row in group], 0, 0.0))
    shaping = Shaping(overlong=Overlong(max_length=20, cache=10))
    found = asked(tmp_path, rows, Objective(shaping=shaping))
    assert found.agrees is False
    assert named(found)["shaped"] is False


def test_a_null_reward_that_counts_as_0(tmp_path) -> None:
    rng = random.Random(3)
    rows = rollouts(steps=6, reward=graded)
    for row in rows:
        row["reward"] = None if rng.random() < 0.1 else row["reward"] + 1.0
    for group in sets(rows):
        give(group, standard([row["reward"] or 0.0 for row in group], 0, 0.0))
    assert named(asked(tmp_path, rows))["missing"] == "0"


def test_a_null_reward_that_empties_its_group(tmp_path) -> None:
    rng = random.Random(3)
    rows = rollouts(steps=6, reward=graded)
    for row in rows:
        row["reward"] = None if rng.random() < 0.05 else row["reward"]
    for group in sets(rows):
        if any(row["reward"] is None for row in group):
            for row in group:
                row["advantage"] = math.nan
        else:
            give(group, standard([row["reward"] for row in group], 0, 0.0))
    assert named(asked(tmp_path, rows))["missing"] == "poisons"


def test_responses_without_loss_tokens_that_leave_the_statistics(tmp_path) -> None:
    rng = random.Random(4)
    rows = rollouts(steps=6, reward=graded)
    for row in rows:
        row["loss_mask"] = [rng.random() > 0.2] * row["length"]
    for group in sets(rows):
        kept = [row for row in group if any(row["loss_mask"])]
        give(group, (0.0 for _ in group))
        give(kept, standard([row["reward"] for row in kept], 1, 0.0))
    assert named(asked(tmp_path, rows))["not_counted"] == "responses without loss tokens"


def test_groups_by_prompt_where_the_ids_say_otherwise(tmp_path) -> None:
    rows = rollouts(steps=6, reward=graded)
    for group in sets(rows, lambda row: (row["step"], row["prompt_id"])):
        give(group, standard([row["reward"] for row in group], 0, 0.0))
    for row in rows:
        row["group_id"] = f"{row['group_id'].split('-')[0]}-{row['sample_index']}"
    assert named(asked(tmp_path, rows))["grouping"] == "prompt_id in a batch"


def test_blocks_of_interleaved_rows(tmp_path) -> None:
    rows = rollouts(steps=6, reward=graded, epochs=1)
    rows.sort(key=lambda row: (row["step"], row["sample_index"], row["group_id"]))
    for k in range(0, len(rows), 8):
        give(rows[k : k + 8], standard([row["reward"] for row in rows[k : k + 8]], 0, 0.0))
    assert named(asked(tmp_path, rows))["grouping"] == "blocks of 8 rows in logged order"


def test_interleaved_groups_of_rows_in_blocks(tmp_path) -> None:
    rows = rollouts(steps=6, reward=graded, epochs=1)
    for step in sets(rows, lambda row: row["step"]):
        for k in range(4):
            give(step[k::4], standard([row["reward"] for row in step[k::4]], 0, 0.0))
    assert named(asked(tmp_path, rows))["grouping"] == "every n-th row of a batch, 8 apiece"


def turns(rows: Rows) -> Rows:
    """Trajectories of one to three turns with one reward each."""
    rng = random.Random(6)
    made: Rows = []
    for k, row in enumerate(rows):
        for turn in range(rng.choice((1, 1, 2, 3))):
            made.append(row | {"trajectory_id": str(k), "turn": turn})
    return made


@pytest.mark.parametrize("apiece", [False, True])
def test_turns_count_once_a_trajectory_or_each(tmp_path, apiece) -> None:
    rows = turns(rollouts(steps=6, reward=graded, epochs=1))
    for group in sets(rows):
        counted = group if apiece else [row for row in group if row["turn"] == 0]
        mean = statistics.fmean(row["reward"] for row in counted)
        give(group, (row["reward"] - mean for row in group))
    expected = "group_id, with every row of a trajectory" if apiece else "group_id"
    assert named(asked(tmp_path, rows))["grouping"] == expected


def test_the_first_response_as_baseline(tmp_path) -> None:
    rows = rollouts(steps=6, reward=graded)
    for group in sets(rows):
        give(group, (row["reward"] - group[0]["reward"] for row in group))
    found = named(asked(tmp_path, rows))
    assert (found["baseline"], found["scale"]) == (FIRST, "none")


def test_a_group_of_one_that_keeps_its_reward(tmp_path) -> None:
    rows = [
        row for row in rollouts(steps=6, reward=graded) if row["sample_index"] < 1 + 7 * (row["step"] % 3)
    ]
    for group in sets(rows):
        total, n = sum(row["reward"] for row in group), len(group)
        give(group, (x - (total - x) / (n - 1) if n > 1 else x for x in (row["reward"] for row in group)))
    found = named(asked(tmp_path, rows))
    assert (found["baseline"], found["singleton"]) == ("leave_one_out", "raw")


def test_the_second_best_as_baseline(tmp_path) -> None:
    rows = rollouts(steps=6, reward=graded)
    for group in sets(rows):
        second, best = sorted(row["reward"] for row in group)[-2:]
        give(group, (best - second if row["reward"] == best else 0.0 for row in group))
    assert named(asked(tmp_path, rows))["baseline"] == "runner_up"


def test_an_epsilon_that_is_on_no_list(tmp_path) -> None:
    rows = rollouts(steps=6)
    for group in sets(rows):
        give(group, standard([row["reward"] for row in group], 0, 0.25))
    found = named(asked(tmp_path, rows))
    assert found["epsilon"] == pytest.approx(0.25, rel=1e-3)
    assert (found["scale"], found["ddof"]) == ("group_std", 0)


def test_copies_of_rows_are_no_part_of_a_group(tmp_path) -> None:
    rows = rollouts(steps=6)
    for group in sets(rows):
        give(group, standard([row["reward"] for row in group], 1, 1e-4))
    rows = [row for k, row in enumerate(rows) for _ in range(2 if k % 7 == 0 else 1)]
    found = named(asked(tmp_path, rows))
    assert (found["scale"], found["ddof"], found["not_counted"]) == ("group_std", 1, None)


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_advantages_of_a_few_decimals_still_fit(tmp_path, decimals) -> None:
    rows = rollouts(steps=6, reward=graded)
    for group in sets(rows):
        made = standard([row["reward"] for row in group], 1, 1e-4)
        for row, advantage in zip(group, made, strict=True):
            row["advantage"] = round(advantage, decimals)
    found = asked(tmp_path, rows)
    assert found.status == "fits"
    assert found.best is not None
    assert (found.best.baseline, found.best.scale, found.best.ddof) == ("group_mean", "group_std", 1)
    assert "rounding" in found.reason
    assert 1e-4 in {candidate.epsilon for candidate in found.equivalent}
    assert {candidate.ddof for candidate in found.equivalent} == {1}


def test_advantages_in_bfloat16_still_fit(tmp_path) -> None:
    rows = rollouts(steps=6, reward=graded)
    for group in sets(rows):
        total, n = sum(row["reward"] for row in group), len(group)
        for row in group:
            exact = np.float32(row["reward"] - (total - row["reward"]) / (n - 1))
            bits = (exact.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
            row["advantage"] = float(bits.view(np.float32))
    found = asked(tmp_path, rows)
    assert found.status == "fits"
    assert found.best is not None
    assert (found.best.baseline, found.best.scale) == ("leave_one_out", "none")
    assert {candidate.baseline for candidate in found.equivalent} == {"leave_one_out"}
