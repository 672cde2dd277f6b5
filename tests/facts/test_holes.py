"""Logs with holes: what is null is neither invented nor merged."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic import rollouts, write

from audit.analyses.explain import explain
from audit.analyses.groups import groups_of
from audit.analyses.skipped import Skipped
from audit.analyses.summary import summarise
from audit.errors import BadLog, MissingColumn
from audit.facts.rows import RunRows
from audit.facts.weigh import coefficients_of, write_weights
from audit.logs import open_run
from audit.objectives.catalogue import named
from audit.objectives.objective import Aggregation


def rows_of(tmp_path, data, objective="grpo"):
    return RunRows.read(write(tmp_path / "run", data, objective))


def test_a_response_without_token_lists_has_the_length_that_was_logged(tmp_path) -> None:
    data = rollouts(steps=2, epochs=1)
    for row in data[::2]:
        row.update(dict.fromkeys(("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref")))
    rows = rows_of(tmp_path, data)
    assert rows.length.tolist() == [row["length"] for row in data]
    assert summarise(rows.run).length.value == pytest.approx(np.mean([row["length"] for row in data]))


def test_and_no_length_where_none_was(tmp_path) -> None:
    data = rollouts(steps=2, epochs=1)
    for row in data:
        del row["length"]
    for row in data[::2]:
        row.update(dict.fromkeys(("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref")))
    rows = rows_of(tmp_path, data)
    assert np.isnan(rows.length[::2]).all()
    assert np.isfinite(rows.length[1::2]).all()
    assert summarise(rows.run).length.n == len(data) // 2


def test_a_budget_is_not_read_from_responses_of_unknown_length(tmp_path) -> None:
    data = rollouts(steps=8, epochs=1, longest=4)
    for row in data:
        del row["length"]
        if row["finish_reason"] == "length" and row["sample_index"] < 4:
            row.update(dict.fromkeys(("token_ids", "loss_mask", "logp_theta", "logp_old", "logp_ref")))
    a, b = write(tmp_path / "a", data, "grpo"), write(tmp_path / "b", data, "grpo")
    assert "data.truncation" not in [cause.id for cause in explain(a, b).verdict.causes]


def test_a_null_update_is_that_of_its_step_and_epoch(tmp_path) -> None:
    whole = rollouts(steps=3, epochs=1)
    holes = [row | {"update": row["update"] if row["step"] == 2 else None} for row in whole]
    complete = coefficients_of(rows_of(tmp_path / "a", whole), named("dapo")).nu
    made = coefficients_of(rows_of(tmp_path / "b", holes), named("dapo")).nu
    assert np.array_equal(made, complete)


def test_a_null_generation_batch_is_the_update(tmp_path) -> None:
    data = [
        row | {"generation_batch": row["step"] if row["step"] == 2 else None} for row in rollouts(epochs=1)
    ]
    rows = rows_of(tmp_path, data)
    assert len(np.unique(rows.generation_batch)) == 12


def test_a_partly_null_micro_batch_is_not_a_micro_batch(tmp_path) -> None:
    data = rollouts(steps=1, epochs=1)
    data[0]["micro_batch"] = None
    rows = rows_of(tmp_path, data)
    scoped = named("grpo").replace(aggregation=Aggregation(scope="micro_batch"))
    with pytest.raises(MissingColumn, match="micro_batch"):
        coefficients_of(rows, scoped)


def test_rows_without_group_are_not_one_group(tmp_path) -> None:
    data = rollouts(steps=2, epochs=1)
    for row in data[:8]:
        row["group_id"] = "x"
    run = write(tmp_path / "run", data, "grpo")
    table = pq.read_table(run.files[0].path)
    ids = [None if i < 8 else v for i, v in enumerate(table["group_id"].to_pylist())]
    at = table.column_names.index("group_id")
    pq.write_table(table.set_column(at, "group_id", pa.array(ids)), run.files[0].path)
    rows = RunRows.read(open_run(tmp_path / "run"))
    with pytest.raises(BadLog, match="group_id is null in 8 of 64 rows"):
        coefficients_of(rows, named("grpo"))
    coefficients_of(rows, named("reinforce"))
    assert groups_of(rows).size.sum() == 56


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_one_bad_log_prob_neither_hides_a_difference_nor_passes_unsaid(tmp_path, bad: float) -> None:
    data = rollouts(seed=1)
    data[3]["logp_theta"] = [bad, *data[3]["logp_theta"][1:]]
    a = write(tmp_path / "a", data, "grpo")
    b = write(tmp_path / "b", rollouts(seed=2), {"name": "grpo", "scale": {"kind": "none"}})
    found = explain(a, b)
    assert "objective.scale" in [cause.id for cause in found.verdict.causes]
    assert "same weight" not in found.verdict.text
    assert (
        Skipped("objective effect on 1 of the responses of a", "finite rewards and log-probs")
        in found.skipped
    )
    written = write_weights(RunRows.read(a), named("grpo"), tmp_path / "w.parquet")
    assert written.not_finite == 1


def test_a_skipped_file_is_named_by_explain(tmp_path) -> None:
    a, b = (write(tmp_path / name, rollouts(seed=s), "grpo") for s, name in ((1, "a"), (2, "b")))
    (tmp_path / "a" / "rollouts" / "part-000009.parquet").write_bytes(b"PAR1 cut")
    found = explain(open_run(a.path), open_run(b.path))
    assert [skip.check for skip in found.skipped if "part-000009" in skip.check] == [
        "rows of a in part-000009.parquet"
    ]
    assert "seed noise" not in found.verdict.text


def test_one_null_update_joins_the_rest_of_its_step(tmp_path) -> None:
    whole = rollouts(steps=3)
    holes = [row | {"update": None} if i == 7 else row for i, row in enumerate(whole)]
    complete = coefficients_of(rows_of(tmp_path / "a", whole), named("grpo")).nu
    made = coefficients_of(rows_of(tmp_path / "b", holes), named("grpo")).nu
    assert np.array_equal(made, complete)


def test_a_null_update_that_step_and_epoch_do_not_settle_is_refused(tmp_path) -> None:
    data = [row | {"update": i // 16} for i, row in enumerate(rollouts(steps=2, epochs=1))]
    data[3]["update"] = None
    with pytest.raises(BadLog, match="update is null in 1 of 64 rows"):
        coefficients_of(rows_of(tmp_path, data), named("grpo"))


def test_one_infinite_reward_does_not_silence_the_length_analysis(tmp_path) -> None:
    from audit.analyses.length import length_bias

    data = rollouts(steps=12, epochs=1)
    clean = length_bias(rows_of(tmp_path / "a", data), named("grpo")).pressure
    data[3]["reward"] = math.inf
    dirty = length_bias(rows_of(tmp_path / "b", data), named("grpo"))
    assert dirty.pressure.wrong.value == pytest.approx(clean.wrong.value, rel=0.2)
    assert any("8 responses left out" in doubt for doubt in dirty.doubts)
