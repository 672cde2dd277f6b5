"""One line of the table of runs: the curves are plain means, and what contradicts a declaration is seen."""

from __future__ import annotations

import statistics

import pytest
from synthetic import centred, rollouts, with_advantages, write

from audit.analyses.run_overview import POINTS, run_overview


def test_curves_are_means_of_the_first_pass(tmp_path) -> None:
    made = rollouts(steps=5)
    found = run_overview(write(tmp_path / "run", made, "grpo"))
    steps = sorted({row["step"] for row in made if row["epoch"] == 0})
    for curve, name in ((found.reward, "reward"), (found.length, "length")):
        by_step = [[r[name] for r in made if r["step"] == s and r["epoch"] == 0] for s in steps]
        assert curve == pytest.approx([statistics.fmean(values) for values in by_step])
    assert (found.first_step, found.last_step) == (1, 10)
    assert found.summary.responses == len(made)


def test_a_long_run_has_a_curve_of_few_points(tmp_path) -> None:
    made = rollouts(steps=50, groups=1, size=2, epochs=1)
    assert len(run_overview(write(tmp_path / "run", made)).reward) == POINTS


def test_an_unknown_objective_and_a_missing_length_are_no_errors(tmp_path) -> None:
    kept = ("step", "prompt_id", "group_id", "sample_index", "reward")
    rows = [{key: row[key] for key in kept} for row in rollouts(steps=3, epochs=1)]
    found = run_overview(write(tmp_path / "run", rows, {"name": "no such objective"}))
    assert found.length == []
    assert found.inferred.status == "skipped"
    assert any("not read" in note for note in found.summary.notes)


def test_advantages_of_another_objective_are_seen(tmp_path) -> None:
    rows = with_advantages(rollouts(steps=3), centred)
    found = run_overview(write(tmp_path / "run", rows, "grpo"))
    assert found.inferred.agrees is False
    assert found.inferred.best.describe() == "group_mean"
