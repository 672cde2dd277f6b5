"""Rows that are in a log twice: against a dictionary of whole rows, and in a comparison of two runs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from synthetic import Rows, rollouts, write

from audit.analyses.explain import explain
from audit.analyses.row_copies import row_copies
from audit.facts.rows import RunRows


def base(seed: int) -> Rows:
    rows = rollouts(seed=seed, steps=6, groups=3, size=4, longest=3, epochs=2)
    return [row | {"policy_version": 0} for row in rows]


def doubled(rows: Rows, rng: random.Random, share: float) -> Rows:
    made = []
    for row in rows:
        made += [row] * (2 if rng.random() < share else 1)
    return made


def repeats(rows: Rows) -> list[bool]:
    """Whether each row, whole, was there before."""
    seen: set[str] = set()
    found = []
    for row in rows:
        text = repr(sorted(row.items()))
        found.append(text in seen)
        seen.add(text)
    return found


@pytest.mark.parametrize(("seed", "share"), [(0, 0.0), (1, 0.05), (2, 0.6)])
def test_copies_are_those_of_whole_rows(tmp_path, seed: int, share: float) -> None:
    rng = random.Random(seed)
    rows = doubled(base(seed), rng, share)
    rng.shuffle(rows)
    rows.sort(key=lambda row: row["step"])
    found = row_copies(RunRows.read(write(tmp_path / "a", rows)))
    assert found is not None
    assert found.tolist() == repeats(rows)


def test_another_text_or_score_in_the_same_place_is_no_copy(tmp_path) -> None:
    rows = base(0)
    other_text = rows[0] | {"token_ids": [*rows[0]["token_ids"][:-1], 9]}
    other_score = rows[1] | {"reward": 7.0}
    other_policy = rows[2] | {"logp_old": [x - 0.01 for x in rows[2]["logp_old"]]}
    made = [*rows, other_text, other_score, other_policy]
    found = row_copies(RunRows.read(write(tmp_path / "a", made)))
    assert found is not None
    assert not found.any()


def test_without_texts_copies_cannot_be_told(tmp_path) -> None:
    rows = doubled(base(0), random.Random(0), 0.5)
    bare = [{k: v for k, v in row.items() if k not in ("response", "token_ids")} for row in rows]
    assert row_copies(RunRows.read(write(tmp_path / "a", bare))) is None


@pytest.mark.parametrize("size", [4, 16])
def test_rows_written_twice_are_the_one_cause_and_change_no_comparison(tmp_path, size: int) -> None:
    rows = [rollouts(seed=seed, steps=10, groups=4, size=size, epochs=1) for seed in (1, 2)]
    again = doubled(rows[1], random.Random(3), 0.1)
    a, b = write(tmp_path / "a", rows[0], "grpo"), write(tmp_path / "b", again, "grpo")
    clean = explain(a, write(tmp_path / "clean", rows[1], "grpo"))
    found = explain(a, b)
    (cause,) = found.verdict.causes
    assert cause.id == "logging"
    assert cause.evidence["b"] == pytest.approx(np.mean(repeats(again)))
    assert clean.verdict.causes == []
    of_clean = {effect.name: effect.b for effect in clean.measured}
    for effect in found.measured:
        assert effect.b == pytest.approx(of_clean[effect.name], abs=1e-12)
