"""Rewards near the end of float64: no warning, no number that overflowed, and a note that says so."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from synthetic import rollouts, write

import audit
from audit.analyses.metric_curves import metric_curves
from audit.analyses.overflow import overflow_notes
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.report.as_json import as_json

NOTED = ("summary", "groups", "prompts", "rewards")
ANALYSES: dict[str, Callable[[Run], Any]] = {
    **{name: getattr(audit, name) for name in (*NOTED, "check", "clipping", "mismatch", "staleness")},
    "length": audit.length_bias,
    "kl": audit.kl,
    "curves": lambda run: metric_curves(RunRows.read(run)),
}


def scaled(path, factor: float, seed: int = 0) -> Run:
    rows = rollouts(steps=12, seed=seed)
    for row in rows:
        row["reward"] *= factor
        row["reward_components"] = {"a": row["reward"], "b": factor / 2}
    return write(path, rows, "grpo")


@pytest.fixture(scope="module", params=[1e200, 1e308])
def huge(request, tmp_path_factory) -> Run:
    return scaled(tmp_path_factory.mktemp("logs") / "huge", request.param)


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_warns_of_nothing_and_says_that_it_overflowed(huge, name) -> None:
    result = ANALYSES[name](huge)
    json.loads(as_json(result), parse_constant=pytest.fail)
    if name in NOTED:
        assert any("overflow float64" in note for note in result.notes)
    if name == "kl":
        assert any("overflow float64" in doubt for doubt in result.doubts)


def test_two_runs_are_compared_and_the_one_that_overflows_is_named(huge, tmp_path) -> None:
    plain = scaled(tmp_path / "plain", 1.0, seed=1)
    for pair in ((huge, plain), (plain, huge), (huge, huge)):
        noted = [note for note in audit.explain(*pair).notes if "overflow float64" in note]
        assert len(noted) == pair.count(huge)
        assert all(note.startswith("huge: ") for note in noted)
    audit.explain_many([huge, plain, scaled(tmp_path / "third", 1.0, seed=2)])


def test_what_did_not_overflow_is_told(tmp_path) -> None:
    run = scaled(tmp_path / "run", 1e200)
    reward = [row["reward"] for row in rollouts(steps=12) if not row["epoch"]]
    mean = audit.rewards(run).reward.mean
    assert mean.value == pytest.approx(1e200 * sum(reward) / len(reward))
    assert mean.n == len(reward)


@pytest.mark.parametrize(("share", "noted"), [(0.99, False), (1.01, True)])
def test_the_bound_is_where_a_sum_of_squares_overflows(tmp_path, share, noted) -> None:
    rows = rollouts(steps=2)
    largest = share * math.sqrt(np.finfo(np.float64).max / len(rows))
    for row in rows:
        row["reward"] = largest
    total = sum(row["reward"] ** 2 for row in rows)
    assert math.isinf(total) is noted
    assert bool(overflow_notes(RunRows.read(write(tmp_path / "run", rows)))) is noted


def test_rewards_as_they_are_have_no_note(tmp_path) -> None:
    assert overflow_notes(RunRows.read(scaled(tmp_path / "run", 1.0))) == []
