"""One prompt over steps against a loop over the rows."""

from __future__ import annotations

from math import sqrt

import pytest
from scipy.stats import norm
from synthetic import rollouts, write

from audit.analyses.prompt_course import prompt_course

HOSTILE = "p'; DROP TABLE rollouts; --"


def wilson(won: int, n: int) -> tuple[float, float]:
    z, p = norm.ppf(0.975), won / n
    middle, reach = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)


def test_success_and_means_of_every_visit(tmp_path) -> None:
    rows = rollouts(steps=6, prompts=3)
    course = prompt_course(write(tmp_path / "run", rows), "p1")
    visits: dict[int, list[dict]] = {}
    for row in rows:
        if row["prompt_id"] == "p1" and row["epoch"] == 0:
            visits.setdefault(row["step"], []).append(row)
    assert [at.step for at in course.steps] == sorted(visits)
    assert course.of == len(visits)
    for at in course.steps:
        held = visits[at.step]
        won, n = int(sum(row["reward"] for row in held)), len(held)
        assert (at.samples, at.success.n, at.success.value) == (n, n, won / n)
        assert (at.success.low, at.success.high) == pytest.approx(wilson(won, n))
        assert at.length == pytest.approx(sum(row["length"] for row in held) / n)
        assert at.group_id == min(row["group_id"] for row in held)


def test_rewards_of_other_values_have_a_mean_and_no_success(tmp_path) -> None:
    run = write(tmp_path / "run", rollouts(steps=4, prompts=2, reward=lambda _, __, rng: rng.gauss(0.0, 1.0)))
    course = prompt_course(run, "p0")
    assert course.steps
    assert all(at.success is None and at.reward is not None for at in course.steps)


def test_a_prompt_that_is_no_prompt_of_the_run_has_no_steps(tmp_path) -> None:
    course = prompt_course(write(tmp_path / "run", rollouts(steps=2)), HOSTILE)
    assert (course.steps, course.of) == ([], 0)
