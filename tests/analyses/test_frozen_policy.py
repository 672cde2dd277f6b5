"""A policy that never moves: named as what the optimiser did, with the texts that show it."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import Rows, write
from test_gap_onset import made

from audit.analyses.explain import explain
from audit.analyses.frozen_policy import STILL


def changes(rows: Rows) -> list[float]:
    """Range of the mean log-prob of each text that came up in several steps, by a dictionary."""
    seen: dict[tuple[str, tuple[int, ...]], dict[int, float]] = {}
    for row in rows:
        if not row["epoch"]:
            key = (row["prompt_id"], tuple(row["token_ids"]))
            seen.setdefault(key, {})[row["step"]] = float(np.mean(row["logp_old"]))
    return [max(steps.values()) - min(steps.values()) for steps in seen.values() if len(steps) > 1]


@pytest.mark.parametrize("theta", [True, False])
def test_a_frozen_policy_is_named(tmp_path, theta: bool) -> None:
    rows = made(1, theta=theta), made(2, theta=theta, pace=0.0)
    found = explain(write(tmp_path / "a", rows[0]), write(tmp_path / "b", rows[1]))
    cause = next(c for c in found.verdict.causes if c.evidence.get("kind") == "frozen")
    assert cause.id == "optimiser"
    assert cause.summary.startswith("B's policy never moves")
    expected = [changes(side) for side in rows]
    assert cause.evidence["texts"] == [len(side) for side in expected]
    assert cause.evidence["change_of_texts"] == pytest.approx([np.median(s) for s in expected], abs=STILL)
    assert ("policy ratio stays 1" in cause.summary) == theta


def test_two_frozen_policies_and_two_that_move_are_no_cause(tmp_path) -> None:
    both = explain(write(tmp_path / "a", made(1, pace=0.0)), write(tmp_path / "b", made(2, pace=0.0)))
    assert both.verdict.causes == []
    assert any("neither run does the policy move" in note for note in both.notes)
    slow = explain(write(tmp_path / "c", made(1, pace=0.01)), write(tmp_path / "d", made(2, pace=0.01)))
    assert slow.verdict.causes == []
