"""A sound log raises no error and no warning; neither do the runs that come with rlaudit."""

from __future__ import annotations

from pathlib import Path

import pytest
from builder import checked, healthy, write
from synthetic import rollouts, standardised, with_advantages

from audit.analyses.check import check
from audit.importers import open_run

SAMPLES = Path(__file__).parents[2] / "sample_logs"
RUNS = sorted(path.parent for path in SAMPLES.glob("*/*/run.json"))


def loud(result) -> list:
    return [p for p in result.problems if p.severity != "info"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"updates": 1},
        {"rate": 0.2, "size": 4},
        {"size": 16, "groups": 3},
        {"longest": 100, "prompts": 300},
        {"shortest": 1, "longest": 6},
        {"vocabulary": 14},
    ],
)
def test_a_sound_run_raises_nothing(tmp_path, settings) -> None:
    assert loud(checked(tmp_path / "run", healthy(seed=len(settings), **settings))) == []


@pytest.mark.parametrize("seed", range(2))
def test_the_synthetic_runs_of_other_tests_raise_nothing(tmp_path, seed) -> None:
    rows = with_advantages(rollouts(seed=seed), standardised(0, 0.0))
    assert loud(check(write(tmp_path / "run", rows, objective="grpo"))) == []


@pytest.mark.parametrize("path", [*RUNS, SAMPLES / "trl_completions"], ids=lambda path: path.name)
def test_the_sample_runs_raise_nothing(path) -> None:
    assert loud(check(open_run(path))) == []
