"""Distributions of length against counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import rollouts, write

from audit.analyses.length_ecdf import POINTS, ecdf, length_distributions
from audit.facts.rows import RunRows


@given(st.lists(st.integers(0, 400), min_size=1, max_size=500))
def test_levels_are_the_shares_that_are_no_longer(values) -> None:
    length, level = ecdf(np.array(values, dtype=float))
    assert len(length) <= POINTS
    assert length[0] == min(values)
    assert (length[-1], level[-1]) == (max(values), 1.0)
    assert level == pytest.approx([sum(v <= at for v in values) / len(values) for at in length])


def test_thirds_split_the_steps_and_count_the_first_pass_alone(tmp_path) -> None:
    logged = rollouts(steps=5)
    found = length_distributions(RunRows.read(write(tmp_path / "run", logged)))
    spans = {each.third: (each.first_step, each.last_step) for each in found.curves}
    # Steps 1, 3, 5, 7, 9 are first passes.
    assert spans == {"early": (1, 3), "middle": (5, 7), "late": (9, 9)}
    for each in found.curves:
        of = [
            row["length"]
            for row in logged
            if row["epoch"] == 0
            and each.first_step <= row["step"] <= each.last_step
            and row["reward"] == (each.side == "correct")
        ]
        assert (each.n, each.median) == (len(of), np.median(of))
