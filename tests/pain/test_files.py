"""What the log lost on the way: P48 of the public reports."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from builder import checked, extra, healthy, ids, named, write

from audit.analyses.check import check
from audit.logs import open_run


@pytest.mark.parametrize(("ranks", "lost", "step"), [(8, 5, 7), (4, 1, 12)])
def test_rank_files_that_are_missing_at_a_step(tmp_path, ranks, lost, step) -> None:
    rows = healthy(steps=12, groups=ranks, size=2, updates=1)
    for row in rows:
        row["rank"] = int(row["group_id"].split("-")[1])
    path = tmp_path / "run"
    write(tmp_path / "whole", [{k: v for k, v in row.items() if k != "rank"} for row in rows])
    (file,) = (tmp_path / "whole" / "rollouts").glob("*.parquet")
    table = pq.read_table(file)
    for s in range(1, 13):
        target = path / "rollouts" / f"step_{s}"
        target.mkdir(parents=True)
        for rank in range(ranks):
            here = [k for k, row in enumerate(rows) if (row["step"], row["rank"]) == (s, rank)]
            if s != step or rank >= lost:
                pq.write_table(table.take(here), target / f"rank_{rank}.parquet")
    (tmp_path / "whole" / "run.json").replace(path / "run.json")
    found = named(check(open_run(path)), "file.ranks-missing")
    assert found.steps == (step,)
    assert f"Step {step}: {ranks - lost} of {ranks} rank files present (rank 0" in found.summary


@pytest.mark.parametrize(("column", "since"), [("correct", 8), ("finish_reason", 11), ("advantage", 2)])
def test_a_column_that_stops(tmp_path, column, since) -> None:
    rows = healthy()
    for row in rows:
        if row["step"] >= since:
            row[column] = None
    found = named(checked(tmp_path / "run", rows), "column.stops", column)
    assert found.rows == 64 * (13 - since)
    assert f"'{column}' is missing since step {since} ({13 - since} of 12 steps)" in found.summary


def test_a_component_that_stops_and_one_that_starts(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        parts = dict(row["reward_components"])
        if row["step"] >= 10:
            del parts["format"]
        if row["step"] >= 4:
            parts["judge"] = 0.0
        row["reward_components"] = parts
    found = [p for p in checked(tmp_path / "run", rows).problems if p.id == "component.stops"]
    said = " ".join(p.summary for p in found)
    assert "Component 'format' is missing since step 10 (3 of 12 steps)." in said
    assert "Component 'judge' is logged from step 4 only (3 of 12 steps lack it)." in said


def test_a_column_that_single_rows_lack_is_not_one_that_stops(tmp_path) -> None:
    rows = healthy()
    for row in rows[::7]:
        row["correct"] = None
    assert "column.stops" not in ids(checked(tmp_path / "run", rows))


def test_an_extra_field_that_stops(tmp_path) -> None:
    rows = healthy()
    for row in rows:
        row["extra"] = extra(acc=1) if row["step"] < 6 else extra(other="text")
    found = named(checked(tmp_path / "run", rows), "component.stops")
    assert "Field 'acc' of extra is missing since step 6 (7 of 12 steps)." in found.summary
