"""Queries in a process of their own: they end in time and within bounds, whatever they ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from synthetic import rollouts, write

from audit.errors import AuditError
from audit.importers import open_run
from audit.logs import Run, locked_sql, sql_child
from audit.logs.sql_process import RunningQuery, Spare

ENDLESS = "select sum(hash(a.range * b.range)) from range(1000000) a, range(1000000) b"
# One step that no interrupt ends, or that asks for memory of which DuckDB keeps no count.
SWELLING = (
    "select list_sum(range(3000000000))",
    "select len(list_resize([1], 2000000000))",
    "select len(range(1500000000))",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write(tmp_path_factory.mktemp("logs") / "it's [a-z]*", rollouts(steps=3, epochs=1))


def test_it_answers_what_a_query_in_this_process_answers(run) -> None:
    sql = "select step, reward, token_ids, 9007199254740993, 'nan'::double from rollouts limit 5"
    found, same = RunningQuery(run, sql, rows=3).run(), locked_sql.query(run, sql, rows=3)
    assert (found.run, found.columns, found.more, found.n) == (same.run, same.columns, True, 3)
    assert str(found.rows) == str(same.rows)


def test_an_imported_log_keeps_its_name() -> None:
    run = open_run(Path(__file__).parents[2] / "sample_logs" / "trl_completions")
    found = RunningQuery(run, "select count(*) from rollouts").run()
    assert (found.rows, found.run) == ([[run.num_rows]], run.run_id)


@pytest.mark.parametrize("sql", ["copy rollouts to 'x.csv'", "select nope", "select 1; select 2", ""])
def test_refusals_are_those_of_the_check(run, sql) -> None:
    with pytest.raises(AuditError) as here:
        locked_sql.query(run, sql)
    with pytest.raises(AuditError) as there:
        RunningQuery(run, sql).run()
    assert str(there.value) == str(here.value)


@pytest.mark.skipif(sys.platform != "linux", reason="the bound on memory is that of Linux")
@pytest.mark.parametrize("sql", SWELLING)
def test_what_swells_is_ended(run, sql) -> None:
    start = time.monotonic()
    with pytest.raises(AuditError, match=r"of memory|stopped after 2 seconds"):
        RunningQuery(run, sql, seconds=2).run()
    assert time.monotonic() - start < 2 + sql_child.GRACE + 30  # a busy machine starts processes slowly


def test_its_time_is_up(run) -> None:
    with pytest.raises(AuditError, match=r"stopped after 0\.3 seconds"):
        RunningQuery(run, ENDLESS, seconds=0.3).run()


def test_a_step_that_does_not_stop_is_ended_by_its_process(run, monkeypatch, tmp_path) -> None:
    # In place of a query that does not look at its interrupts.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "def stuck(*_, **__):\n"
        "    import time; time.sleep(600)\n"
        "if 'audit.logs.sql_child' in sys.orig_argv:\n"
        "    import audit.logs.locked_sql as held\n"
        "    held.query = stuck\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(AuditError, match=r"stopped after 0\.2 seconds"):
        RunningQuery(run, "select 1", seconds=0.2).run()


def test_a_query_is_cancelled_from_another_thread(run) -> None:
    running = RunningQuery(run, ENDLESS, seconds=60)
    threading.Timer(0.3, running.cancel).start()
    start = time.monotonic()
    with pytest.raises(AuditError, match="cancelled"):
        running.run()
    assert time.monotonic() - start < 30
    early = RunningQuery(run, "select 1")
    early.cancel()
    with pytest.raises(AuditError, match="cancelled"):
        early.run()


def test_a_spare_is_taken_once_and_ends_when_nobody_asks() -> None:
    spare = Spare()
    spare.prepare()
    spare.prepare()
    first, second = spare.take(), spare.take()
    assert first.pid != second.pid
    for process in (first, second):
        assert process.communicate(b"", 60) == (b"", None)
        assert process.returncode == 0


def test_the_directory_one_stands_in_is_not_imported_from(run, monkeypatch, tmp_path) -> None:
    (tmp_path / "duckdb.py").write_text("raise SystemExit('imported from a log')")
    monkeypatch.chdir(tmp_path)
    assert RunningQuery(run, "select 1").run().rows == [[1]]


def test_an_answer_that_is_too_large_is_refused_with_its_size(run) -> None:
    sql = "select string_agg('x', '') from range(1000) r, range(10)"
    assert RunningQuery(run, sql, size=11_000).run().rows == [["x" * 10_000]]
    with pytest.raises(AuditError, match=r"1 row of together 0\.01\d* MB, and at most 0\.009 MB"):
        RunningQuery(run, sql, size=9_000).run()


def test_what_is_no_text_is_refused_before_a_process_is_asked(run, monkeypatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(AuditError, match="no UTF-8 text"):
        RunningQuery(run, "select '\udcff'").run()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_place_whose_name_is_no_text_is_told_in_words(run, tmp_path) -> None:
    moved = tmp_path / "run"
    shutil.copytree(run.path, moved)
    opened = open_run(moved)
    bad = tmp_path / os.fsdecode(b"r\xff")
    moved.rename(bad)
    with pytest.raises(AuditError, match="not valid UTF-8"):
        RunningQuery(replace(opened, path=bad), "select 1").run()


def test_a_fault_of_the_process_is_not_called_a_lack_of_memory(run, monkeypatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(sql_child, "query", fails)
    said = msgspec.msgpack.decode(
        sql_child._answer(sql_child.Request(os.fsencode(run.path), "select 1", 1, 1.0, None)),
        type=sql_child.Answer,
    )
    assert said.error == "the query failed: ZeroDivisionError: by zero"


def test_an_idle_process_ends_by_itself() -> None:
    code = "from audit.logs import sql_child; sql_child.IDLE = 0.1; sql_child.main()"
    idle = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert idle.wait(60) == sql_child.FAREWELL
    assert idle.stdin is not None
    idle.stdin.close()
