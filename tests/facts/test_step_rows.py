"""One step, read alone, weighs what it weighs within the whole run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic import rollouts, standardised, with_advantages, write

from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.step_rows import step_rows, steps_of
from audit.facts.weight_sums import weight_sums
from audit.logs import open_run
from audit.objectives.catalogue import named


def test_the_weights_of_a_step_are_those_of_the_whole_run(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=3, epochs=2)))
    for name in ("grpo", "dr_grpo", "gspo", "rloo"):
        objective = named(name)
        if objective.aggregation.kind.endswith("-norm"):
            objective = objective.replace(aggregation=type(objective.aggregation)(kind="token-mean"))
        whole = weight_sums(rows, objective)
        for number in (1, 4):
            step = step_rows(rows, number)
            assert step.here.all()
            alone = weight_sums(step.rows, objective)
            for of_run, of_step in zip(whole, alone, strict=True):
                np.testing.assert_allclose(of_step, of_run[rows.step == number], rtol=1e-12)


def test_rows_of_other_steps_come_along_where_a_group_or_batch_spans_steps(tmp_path) -> None:
    made = rollouts(steps=4, epochs=1, groups=2, size=6)
    for row in made:
        # As TRL does: a batch of four steps' rows is mixed, and each step takes every fourth sample of it.
        row["generation_batch"] = (row["step"] - 1) // 2
        row["group_id"] = f"{row['generation_batch']}-{row['prompt_id']}"
        row["step"] = row["update"] = 1 + 2 * row["generation_batch"] + row["sample_index"] % 2
        row["micro_batch"] = 0
    rows = RunRows.read(write(tmp_path / "run", made))
    objective = named("grpo")
    whole = weight_sums(rows, objective)
    step = step_rows(rows, 3)
    assert set(step.rows.numpy("step")) == {3.0, 4.0}
    assert (step.rows.numpy("step")[step.here] == 3).all()
    np.testing.assert_allclose(
        weight_sums(step.rows, objective).policy[step.here], whole.policy[rows.step == 3], rtol=1e-12
    )
    assert step.loss_tokens[~step.here].sum() == 0
    assert step.loss_tokens.sum() == sum(row["length"] for row in made if row["step"] == 3)


def test_columns_that_were_not_logged_stay_unlogged(tmp_path) -> None:
    made = rollouts(steps=2)
    for row in made:
        del row["micro_batch"], row["logp_ref"], row["finish_reason"]
    rows = RunRows.read(write(tmp_path / "run", made))
    step = step_rows(rows, 2)
    assert step.rows.run.columns == rows.run.columns
    assert not step.rows.has("is_greedy")


def test_rows_without_a_group_are_read_all_the_same(tmp_path) -> None:
    made = rollouts(steps=1, epochs=1, groups=2)
    for row in made:
        row["group_id"] = None
    folder = tmp_path / "run" / "rollouts"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(made), folder / "part-0.parquet")
    step = step_rows(RunRows.read(open_run(tmp_path / "run")), 1)
    assert (step.groups, step.with_signal, step.rows.num_rows) == ([], None, len(made))


def test_groups_and_the_one_to_begin_with(tmp_path) -> None:
    made = rollouts(steps=1, epochs=1, groups=3)
    for row in made:
        row["reward"] = float(row["group_id"] == "0-1" and row["sample_index"] == 0)
    step = step_rows(RunRows.read(write(tmp_path / "run", made)), 1)
    assert step.groups == ["0-0", "0-1", "0-2"]
    assert step.with_signal == "0-1"


def test_a_step_that_is_not_there_is_an_error_with_the_ends(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", with_advantages(rollouts(steps=2), standardised(0, 0.0))))
    assert steps_of(rows) == [1, 2, 3, 4]
    with pytest.raises(AuditError, match=r"no step 9\. Its steps go from 1 to 4"):
        step_rows(rows, 9)
