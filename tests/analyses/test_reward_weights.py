"""Weights of reward components: told as shaping where they differ, as another reward where they do not."""

from __future__ import annotations

import random

import pytest
from synthetic import centred, rollouts, with_advantages, write

from audit.analyses.explain import explain
from audit.analyses.pair import Pair
from audit.analyses.reward_weights import reward_weights
from audit.facts.rows import RunRows


def right(prompt: str, text: str, _: random.Random) -> float:
    return float(sum(map(ord, prompt + text)) % 3 == 0)


def short(text: str) -> float:
    return float(len(text) < 3)


def made(seed: int, weights: tuple[float, float], *, spoiled: bool = False):
    """Rewards of two components; short texts, so that both runs sample some alike."""
    rows = rollouts(seed=seed, steps=10, prompts=4, longest=4, epochs=1, reward=right)
    for row in rows:
        verdict = row["reward"]
        if spoiled and sum(map(ord, row["response"])) % 4 == 0:
            verdict = 1.0 - verdict
        row["reward_components"] = {"right": verdict, "short": short(row["response"])}
        row["reward"] = weights[0] * verdict + weights[1] * short(row["response"])
        row["correct"] = bool(verdict)
    return with_advantages(rows, centred)


def pair_of(tmp_path, a, b) -> Pair:
    return Pair(*(RunRows.read(write(tmp_path / name, rows)) for name, rows in (("a", a), ("b", b))))


def test_weights_are_solved_for(tmp_path) -> None:
    found = reward_weights(pair_of(tmp_path, made(1, (1.0, 0.0)), made(2, (0.7, -0.25))))
    assert found is not None
    assert found[0] == pytest.approx({"right": 1.0, "short": 0.0})
    assert found[1] == pytest.approx({"right": 0.7, "short": -0.25})


def test_nothing_is_told_where_one_set_of_weights_makes_both(tmp_path) -> None:
    a = made(1, (1.0, 0.5))
    assert reward_weights(pair_of(tmp_path / "same", a, made(2, (1.0, 0.5)))) is None
    constant = [
        row | {"reward_components": {"right": row["reward"], "short": 1.0}} for row in made(3, (1.0, 0.0))
    ]
    alone = [
        row | {"reward_components": {"right": row["reward"], "short": 0.0}} for row in made(4, (1.0, 0.0))
    ]
    assert reward_weights(pair_of(tmp_path / "constant", constant, alone)) is None
    clipped = [row | {"reward": min(row["reward"], 1.0)} for row in made(5, (1.0, 0.5))]
    assert reward_weights(pair_of(tmp_path / "clipped", a, clipped)) is None


@pytest.mark.parametrize("declared", [None, "rloo"])
def test_other_weights_are_one_fault_told_once(tmp_path, declared: str | None) -> None:
    runs = [
        write(tmp_path / name, made(seed, weights), declared)
        for name, seed, weights in (("a", 1, (1.0, 0.0)), ("b", 2, (1.0, 0.5)))
    ]
    causes = explain(*runs).verdict.causes
    assert [cause.id for cause in causes] == ["objective.shaping"]
    assert "weights" in causes[0].evidence["change"]


def test_another_verdict_beside_other_weights_is_told_too(tmp_path) -> None:
    a, b = (
        write(tmp_path / "a", made(1, (1.0, 0.0))),
        write(tmp_path / "b", made(2, (1.0, 0.5), spoiled=True)),
    )
    ids = [cause.id for cause in explain(a, b).verdict.causes]
    assert {"objective.shaping", "data.reward"} <= set(ids)
