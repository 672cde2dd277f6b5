"""Prompts of both runs, their mean rewards and their texts, against a loop over the rows as written."""

from __future__ import annotations

import statistics

import pytest
from synthetic import rollouts, write

from audit.analyses.pair import Pair
from audit.analyses.prompt_responses import LONGEST, MOST, prompt_responses
from audit.analyses.shared_prompts import shared_prompts
from audit.facts.rows import RunRows


@pytest.fixture(scope="module")
def sides() -> tuple[list[dict], list[dict]]:
    return rollouts(steps=4, prompts=9), rollouts(steps=6, prompts=12, seed=1)


@pytest.fixture(scope="module")
def runs(sides, tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return tuple(write(root / name, rows) for name, rows in zip("ab", sides, strict=True))


def rewards(rows, prompt_id: str, last: int) -> list[float]:
    counted = [row for row in rows if row["epoch"] == 0 and row["step"] <= last]
    return [row["reward"] for row in counted if row["prompt_id"] == prompt_id]


def test_means_and_counts_are_those_of_a_loop(sides, runs) -> None:
    found = shared_prompts(Pair(*map(RunRows.read, runs)))
    last = max(row["step"] for row in sides[0])
    assert found.last_step == last
    drawn = [{row["prompt_id"] for row in rows if row["step"] <= last and not row["epoch"]} for rows in sides]
    assert found.shared == len(drawn[0] & drawn[1]) == len(found.prompts)
    assert (found.only_a, found.only_b) == (len(drawn[0] - drawn[1]), len(drawn[1] - drawn[0]))
    gaps = []
    for prompt in found.prompts:
        a, b = (rewards(rows, prompt.prompt_id, last) for rows in sides)
        assert prompt.n == [len(a), len(b)]
        gap = statistics.fmean(b) - statistics.fmean(a)
        assert prompt.difference == pytest.approx(gap)
        gaps.append(round(abs(gap), 9))
    assert gaps == sorted(gaps, reverse=True)
    pooled = [[r for p in drawn[0] & drawn[1] for r in rewards(rows, p, last)] for rows in sides]
    assert found.reward.difference == pytest.approx(statistics.fmean(pooled[1]) - statistics.fmean(pooled[0]))
    assert found.reward.low <= found.reward.difference <= found.reward.high


def test_texts_are_those_of_the_visit(sides, runs) -> None:
    rows = [row for row in sides[1] if row["prompt_id"] == "p3" and row["epoch"] == 0]
    steps = sorted({row["step"] for row in rows})
    visit = prompt_responses(runs[1], "p3")
    assert (visit.steps, visit.step, visit.prompt) == (steps, steps[-1], "question 3")
    for asked in steps:
        chosen = prompt_responses(runs[1], "p3", step=asked)
        texts = sorted((row["reward"], row["response"]) for row in rows if row["step"] == asked)
        assert chosen.of == len(texts)
        shown = [(each.reward, each.text) for each in chosen.responses]
        assert [reward for reward, _ in shown] == sorted((r for r, _ in texts), reverse=True)[:MOST]
        assert set(shown) <= set(texts)
    early = prompt_responses(runs[1], "p3", until=steps[0])
    assert early.step == steps[0]


def test_a_prompt_that_was_not_drawn_has_no_visit(runs) -> None:
    assert prompt_responses(runs[0], "' OR 1=1 --").responses == []


def test_inner_passes_may_be_counted_from_one(tmp_path) -> None:
    rows = [row | {"epoch": row["epoch"] + 1} for row in rollouts(steps=1, groups=1, size=4)]
    found = prompt_responses(write(tmp_path / "run", rows), rows[0]["prompt_id"])
    assert found.of == 4


def test_a_long_text_is_cut_and_said_to_be(tmp_path) -> None:
    rows = rollouts(steps=1, groups=1, size=2, epochs=1)
    rows[0]["response"] = "x" * (LONGEST + 1)
    found = prompt_responses(write(tmp_path / "run", rows), rows[0]["prompt_id"]).responses
    assert sorted((len(each.text), each.cut) for each in found)[-1] == (LONGEST, True)
    assert sum(each.cut for each in found) == 1


def test_runs_without_a_prompt_in_common(tmp_path) -> None:
    other = [row | {"prompt_id": f"other {row['prompt_id']}"} for row in rollouts(steps=2)]
    sides = (write(tmp_path / "a", rollouts(steps=2)), write(tmp_path / "b", other))
    found = shared_prompts(Pair(*map(RunRows.read, sides)))
    assert (found.prompts, found.shared, found.reward) == ([], 0, None)
    assert found.only_a == len({row["prompt_id"] for row in rollouts(steps=2)})


def test_a_prompt_has_its_text_cut(tmp_path) -> None:
    rows = [row | {"prompt": row["prompt_id"] + "é" * 300} for row in rollouts(steps=2, prompts=3)]
    found = shared_prompts(Pair(*(RunRows.read(write(tmp_path / name, rows)) for name in "ab")))
    assert found.prompts
    assert all(each.text == (each.prompt_id + "é" * 300)[:200] for each in found.prompts)
