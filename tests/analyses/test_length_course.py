"""Courses of length against a least-squares fit of prompts and bins, with a column for each."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.analyses.length_course import length_courses
from audit.facts.rows import RunRows


def test_a_course_is_the_step_effect_of_a_fit_with_prompts(tmp_path) -> None:
    logged = rollouts(steps=6, prompts=3)
    found = length_courses(RunRows.read(write(tmp_path / "run", logged)))
    assert [each.side for each in found.courses] == ["correct", "wrong", "all"]
    for each in found.courses:
        held = [
            row
            for row in logged
            if row["epoch"] == 0 and (each.side == "all" or row["reward"] == (each.side == "correct"))
        ]
        steps, step = np.unique([row["step"] for row in held], return_inverse=True)
        prompts, prompt = np.unique([row["prompt_id"] for row in held], return_inverse=True)
        design = np.hstack([np.eye(len(steps))[step], np.eye(len(prompts))[prompt]])
        fit = np.linalg.lstsq(design, np.array([row["length"] for row in held], dtype=float), rcond=None)[0]
        assert each.step == steps.tolist()
        assert each.change == pytest.approx(fit[: len(steps)] - fit[0])
        assert each.n == len(held)


def test_steps_that_no_prompt_links_have_no_course(tmp_path) -> None:
    logged = [row | {"prompt_id": f"p{row['step']}"} for row in rollouts(steps=4)]
    assert length_courses(RunRows.read(write(tmp_path / "run", logged))).courses == []
