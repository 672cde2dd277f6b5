"""The breakdown by prompt against loops over rows and tokens."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from loose import write_loose
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.prompts import prompt_breakdown
from audit.analyses.samples import samples_of
from audit.errors import MissingColumn
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.facts.weigh import weigh
from audit.objectives.catalogue import named


def broken_down(path, data, declared="grpo", **options):
    rows = RunRows.read(write(path, data, declared, group_size=8))
    objective, notes = chosen_objective(rows, None) if declared else (None, [])
    return rows, prompt_breakdown(rows, objective, notes=notes, **options)


@pytest.mark.parametrize("name", ["grpo", "gspo", "dr_grpo"])
def test_shares_are_sums_of_token_weights(tmp_path, name) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(), name, sampling={"max_tokens": 20}))
    objective, _ = chosen_objective(rows, None)
    result = prompt_breakdown(rows, objective, top=100)
    pull: dict[str, float] = defaultdict(float)
    prompts = rows.table["prompt_id"].to_pylist()
    for batch in weigh(rows, objective):
        at = 0
        for row, length in enumerate(batch.tokens.layout.lengths.tolist()):
            part = batch.weights.policy[at : at + length]
            pull[prompts[batch.first + row]] += abs(float(part.sum()))
            at += length
    total = sum(pull.values())
    assert {each.prompt_id: pytest.approx(each.share) for each in result.heaviest} == {
        prompt: value / total for prompt, value in pull.items()
    }
    shares = [each.share for each in result.heaviest]
    assert shares == sorted(shares, reverse=True)
    own = result.shares[0]
    assert own.objective == objective.name
    assert own.top_share.value == pytest.approx(max(shares))
    assert own.gini.n == len(pull)
    assert sum(each.share.value for each in own.by_rate) == pytest.approx(1.0)


def test_rows_of_prompts_are_counts(tmp_path) -> None:
    data = rollouts()
    _, result = broken_down(tmp_path / "run", data, top=100)
    first: dict[str, list[dict]] = defaultdict(list)
    for row in data:
        if row["epoch"] == 0:
            first[row["prompt_id"]].append(row)
    assert len(result.heaviest) == len(first) == result.visits.prompts
    for each in result.heaviest:
        rows = first[each.prompt_id]
        assert each.prompt == rows[0]["prompt"]
        assert each.samples == len(rows)
        assert each.visits == len({row["group_id"] for row in rows})
        assert each.success == pytest.approx(np.mean([row["reward"] for row in rows]))
        assert each.length == pytest.approx(np.mean([row["length"] for row in rows]))
    visits = sorted(len({row["group_id"] for row in rows}) for rows in first.values())
    assert (result.visits.least, result.visits.most) == (visits[0], visits[-1])
    assert result.visits.median == np.median(visits)
    assert result.visits.once == visits.count(1)


def test_never_and_always_solved_prompts(tmp_path) -> None:
    fixed = {"p0": 0.0, "p1": 1.0, "p2": 1.0}
    data = rollouts(steps=30)
    for row in data:
        row["reward"] = fixed.get(row["prompt_id"], float(row["sample_index"] == 0))
    _, result = broken_down(tmp_path / "run", data)
    prompts = {row["prompt_id"] for row in data}
    assert result.solved.never.value == pytest.approx(1 / len(prompts))
    assert result.solved.always.value == pytest.approx(2 / len(prompts))
    assert result.solved.never.n == len(prompts)
    share = sum(row["prompt_id"] == "p0" for row in data) / len(data)
    assert result.solved.samples_on_never.value == pytest.approx(share)


def test_bins_describe_the_groups_in_them(tmp_path) -> None:
    rows, result = broken_down(tmp_path / "run", rollouts(steps=30))
    samples = samples_of(rows)
    assert sum(each.groups for each in result.by_rate) <= samples.num_groups
    assert sum(each.success.n for each in result.by_rate) == 8 * sum(each.groups for each in result.by_rate)
    success = [each.success.value for each in result.by_rate]
    assert success[0] < success[-1]
    assert all(each.length.low < 10.5 < each.length.high for each in result.by_rate if each.groups > 10)


def test_texts_that_are_the_same_and_ids_that_are(tmp_path) -> None:
    data = rollouts(steps=20)
    text = {"p0": "What is  1+1?", "p1": "what is 1+1?", "p2": "same", "p3": "same"}
    for at, row in enumerate(data):
        row["prompt"] = text.get(row["prompt_id"], row["prompt"])
        if row["prompt_id"] == "p5" and at % 2:
            row["prompt"] = "another"
    _, result = broken_down(tmp_path / "run", data)
    assert result.texts.ids_of_shared_text == 2
    assert result.texts.ids_of_like_text == 4
    assert result.texts.ids_of_several_texts == 1
    assert result.texts.texts == len({row["prompt"] for row in data})


def test_the_run_s_own_advantages_are_held_against_its_declaration(tmp_path) -> None:
    data = with_advantages(rollouts(steps=60, prompts=60, epochs=1), standardised(0, 0.0))
    _, wrong = broken_down(tmp_path / "wrong", data, "rloo")
    own = wrong.factors[0]
    assert own.objective == wrong.objective
    assert all(each.expected == pytest.approx(1.0, abs=1e-6) for each in own.bins)
    assert min(each.difference.low for each in own.bins if each.difference.low is not None) > 0.3
    assert sum(each.difference.low is not None for each in own.bins) >= 4
    _, right = broken_down(tmp_path / "right", data, "grpo")
    assert sum(each.difference.excludes(0.0) for each in right.factors[0].bins) <= 1


def test_a_run_without_an_objective_is_measured_under_the_known_ones(tmp_path) -> None:
    _, result = broken_down(tmp_path / "run", rollouts(), None)
    assert result.objective is None
    assert {each.objective for each in result.shares} >= {"grpo", "rloo", "dapo"}
    assert result.heaviest[0].share == pytest.approx(result.heaviest[0].samples_share)
    assert any(skip.check == "the run's own objective" for skip in result.skipped)


def test_rewards_that_are_neither_right_nor_wrong_have_no_success_rate(tmp_path) -> None:
    data = rollouts()
    for at, row in enumerate(data):
        row["reward"] += 0.1 * (at % 3)
    _, result = broken_down(tmp_path / "run", data)
    assert (result.solved, result.by_rate, result.factors) == (None, [], [])
    needs = {skip.check: skip.needs for skip in result.skipped}
    assert "column correct" in needs["success rates"]
    assert "two values" in needs["prompt-weight factor"]
    assert result.shares[0].gini.value is not None


def test_a_log_without_tokens_still_has_factors(tmp_path) -> None:
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward")
    data = [{k: row[k] for k in keep} for row in rollouts(epochs=1)]
    result = prompt_breakdown(RunRows.read(write(tmp_path / "run", data)), named("grpo"))
    assert result.shares == []
    assert result.factors[0].objective == "grpo"
    assert any("gradient by prompt" in skip.check for skip in result.skipped)


@pytest.mark.parametrize("column", ["group_id", "prompt_id"])
def test_groups_and_prompts_must_be_known(tmp_path, column) -> None:
    data = [row | {column: None} for row in rollouts(steps=2)]
    with pytest.raises(MissingColumn, match=column):
        prompt_breakdown(RunRows.read(write_loose(tmp_path / "run", data)))


def test_rows_without_a_prompt_are_no_prompt(tmp_path) -> None:
    data = rollouts()
    for row in data:
        if row["prompt_id"] == "p3":
            row["prompt_id"] = None
    result = prompt_breakdown(RunRows.read(write_loose(tmp_path / "run", data)), named("grpo"), top=100)
    assert result.visits.prompts == len({row["prompt_id"] for row in data if row["prompt_id"]})
    assert all(each.prompt_id is not None for each in result.heaviest)
    assert sum(each.share for each in result.heaviest) == pytest.approx(1.0)
