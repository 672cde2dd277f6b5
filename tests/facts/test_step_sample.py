"""A sample of steps is spread over the run, comes with its counts, and is the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from synthetic import rollouts, write

from audit.facts.rows import RunRows
from audit.facts.step_sample import step_sample
from audit.facts.weight_sums import weight_sums
from audit.objectives.catalogue import named


@pytest.fixture
def rows(tmp_path: Path) -> RunRows:
    return RunRows.read(write(tmp_path / "run", rollouts(steps=24, groups=2, epochs=1), "grpo"))


def test_a_run_that_fits_is_not_sampled(rows: RunRows) -> None:
    assert rows.facts is not None
    assert step_sample(rows, np.ones(rows.num_rows, dtype=bool), int(rows.facts["tokens"].sum())) is None


def test_one_step_of_every_stretch_is_drawn(rows: RunRows) -> None:
    assert rows.facts is not None
    tokens = rows.facts["tokens"]
    found = step_sample(rows, np.ones(rows.num_rows, dtype=bool), int(tokens.sum()) // 4 + 1)
    assert found is not None
    steps = np.unique(rows.step[found.at[found.here]])
    assert ((steps - 1) // 4).tolist() == [0, 1, 2, 3, 4, 5]
    held = np.isin(rows.step, steps)
    assert tuple(getattr(found.size, name) for name in ("steps", "of_steps", "tokens", "of_tokens")) == (
        6,
        24,
        int(tokens[held].sum()),
        int(tokens.sum()),
    )
    np.testing.assert_array_equal(found.rows.step, rows.step[found.at])
    again = step_sample(rows, np.ones(rows.num_rows, dtype=bool), int(tokens.sum()) // 4 + 1)
    assert again is not None
    np.testing.assert_array_equal(again.at, found.at)


def test_at_least_one_step_is_drawn_and_weighed_as_in_the_whole_run(rows: RunRows) -> None:
    found = step_sample(rows, np.ones(rows.num_rows, dtype=bool), 1)
    assert found is not None
    assert found.size.steps == 1
    for name in ("dapo", "kimi"):
        whole, alone = (weight_sums(each, named(name)).policy for each in (rows, found.rows))
        np.testing.assert_allclose(alone[found.here], whole[found.at[found.here]], rtol=1e-12)


def test_steps_that_nobody_asks_about_are_not_drawn(rows: RunRows) -> None:
    late = rows.step > 12
    found = step_sample(rows, late, 1)
    assert found is not None
    assert found.size.of_steps == 12
    assert late[found.at[found.here]].all()
    assert step_sample(rows, rows.step == 3, found.size.of_tokens) is None
