"""A result, or a named reason, from every log: columns missing one at a time, and runs at the edge."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic import rollouts, standardised, with_advantages, write

import audit
from audit import stats
from audit.analyses.length import LengthBias, length_bias
from audit.errors import AuditError
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.logs import Run, open_run
from audit.objectives.catalogue import CATALOGUE
from audit.report.as_json import as_json
from audit.report.text import show_length

SAMPLES = Path(__file__).parents[2] / "sample_logs" / "team"
KEYS = ("step", "prompt_id", "group_id", "sample_index", "reward")
FEW = ("rloo", "remax", "gspo", "ppo_gae", "gdpo", "bnpo")


def everything():
    rows = with_advantages(rollouts(steps=4, groups=3), standardised(0, 0.0))
    for row in rows:
        row["correct"] = row["reward"] == 1.0
        row["logp_sampler"] = row["logp_old"]
    return rows


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch) -> Iterator[None]:
    """What is asked here does not hang on the width of an interval."""
    monkeypatch.setattr("audit.stats.RESAMPLES", 99)
    stats._resamples.cache_clear()
    yield
    stats._resamples.cache_clear()


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> Run:
    """The run with another table, as another writer could have left it."""
    for file in (path / "rollouts").glob("*.parquet"):
        pq.write_table(change(pq.read_table(file)), file)
    return open_run(path)


def judged(run, others=()) -> LengthBias:
    rows = RunRows.read(run)
    found = length_bias(rows, *chosen_objective(rows, None), others=others)
    shape = json.loads(as_json(found))
    assert shape["verdict"].endswith(".")
    assert (shape["biased"] is None) == (shape["law"] == "unknown")
    assert shape["reason"]
    return found


@pytest.mark.parametrize("column", [name for name in everything()[0] if name not in KEYS])
def test_without_one_column_there_is_a_result(tmp_path, column) -> None:
    rows = [{k: v for k, v in row.items() if k != column} for row in everything()]
    found = judged(write(tmp_path / "run", rows, "grpo"), ("gspo", "ppo_gae"))
    assert found.biased is True
    assert found.slope.all.value == pytest.approx(-1.0, abs=0.05)
    if column == "finish_reason":
        assert (found.skipped[0].needs, found.truncation) == ("finish_reason", None)


@pytest.mark.parametrize("column", KEYS)
def test_without_a_required_column_there_is_a_result_or_a_named_reason(tmp_path, column) -> None:
    write(tmp_path / "run", everything(), "grpo")
    try:
        judged(rewritten(tmp_path / "run", lambda table: table.drop_columns([column])))
        message = column
    except AuditError as error:
        message = str(error)
    assert column in message


@pytest.mark.parametrize("column", pq.read_schema(next(SAMPLES.glob("grpo-seed1/rollouts/*.parquet"))).names)
def test_a_sample_log_without_one_column(tmp_path, column) -> None:
    source = SAMPLES / "grpo-seed1"
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "run.json").write_bytes((source / "run.json").read_bytes())
    table = pq.read_table(next(source.glob("rollouts/*.parquet"))).slice(0, 96).drop_columns([column])
    pq.write_table(table, tmp_path / "rollouts" / "a.parquet")
    try:
        judged(open_run(tmp_path))
        message = column
    except AuditError as error:
        assert column in KEYS
        message = str(error)
    assert column in message


EDGES = {
    "one step": lambda rows: [row for row in rows if row["step"] == 1],
    "one prompt": lambda rows: [row | {"prompt_id": "p"} for row in rows],
    "one row": lambda rows: rows[:1],
    "all wrong": lambda rows: [row | {"reward": 0.0, "correct": False, "advantage": 0.0} for row in rows],
    "zero advantage": lambda rows: [row | {"advantage": 0.0} for row in rows],
    "null lengths": lambda rows: [
        {k: v for k, v in row.items() if k in (*KEYS, "length")} | ({"length": None} if i % 2 else {})
        for i, row in enumerate(rows)
    ],
    "NaN rewards": lambda rows: [row | {"reward": math.nan} for row in rows],
    "all cut": lambda rows: [row | {"finish_reason": "length"} for row in rows],
    "empty": lambda rows: [
        row | {"length": 0} | {k: [] for k in row if isinstance(row[k], list)} for row in rows
    ],
    "all greedy": lambda rows: [row | {"is_greedy": True} for row in rows],
    "one group of each prompt": lambda rows: [row | {"prompt_id": row["group_id"]} for row in rows],
}


@pytest.mark.parametrize("edge", EDGES)
def test_runs_at_the_edge(tmp_path, edge, capsys) -> None:
    run = write(tmp_path / "run", EDGES[edge](everything()), "grpo")
    found = judged(run, FEW)
    show_length(found)
    assert found.verdict.split(";")[0].split(" (")[0][:20] in " ".join(capsys.readouterr().out.split())
    if edge in ("all wrong", "zero advantage"):
        assert found.biased is None
        assert "no response has a policy weight: nothing pushes on length" in found.verdict


def test_rows_without_a_step_are_left_out_of_drift_and_the_weights_are_skipped(tmp_path) -> None:
    write(tmp_path / "run", everything(), "grpo")

    def blank(table: pa.Table) -> pa.Table:
        step = [None if i % 3 == 0 else s for i, s in enumerate(table["step"].to_pylist())]
        return table.set_column(table.schema.get_field_index("step"), "step", pa.array(step, pa.int64()))

    found = judged(rewritten(tmp_path / "run", blank))
    assert any("step is null" in skip.needs for skip in found.skipped)
    assert found.biased is None
    assert found.drift.all.n == 64


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.iterdir() if path.is_dir()))
def test_every_sample_run_is_judged_by_its_objective(sample) -> None:
    rows = RunRows.read(audit.open_run(SAMPLES / sample))
    found = length_bias(rows, *chosen_objective(rows, None), others=())
    assert found.biased is sample.startswith(("grpo", "gspo"))


def test_a_run_that_declares_no_objective_still_has_its_drift(tmp_path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=4)))
    found = length_bias(rows, None)
    assert found.biased is None
    assert found.law == "unknown"
    assert found.drift.all.value is not None
    assert len(found.per_objective) == len(CATALOGUE)
    [skip] = [skip for skip in found.skipped if "weight per token" in skip.check]
    assert "--objective" in skip.needs
