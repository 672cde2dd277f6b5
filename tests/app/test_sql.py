"""The page SQL: one SELECT in a locked database; what is refused is one line, and large ids stay exact."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import audit.app
import pytest
import streamlit as st
from audit.app import sql_running
from audit.app.sql_examples import EXAMPLES
from streamlit.testing.v1 import AppTest
from synthetic import rollouts, write

from audit.logs import Run
from audit.logs.locked_sql import query

APP = Path(audit.app.__file__).parent
SAMPLES = Path(__file__).parents[2] / "sample_logs"
ENDLESS = "select sum(hash(a.range * b.range)) from range(1000000) a, range(1000000) b"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write(tmp_path_factory.mktemp("logs") / "one", rollouts(steps=3, epochs=1))


def page(monkeypatch: pytest.MonkeyPatch, root: Path, *, wait: bool = True, **address: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    st.cache_data.clear()
    at = AppTest.from_file(str(APP / "streamlit_app.py"), default_timeout=60)
    for name, value in address.items():
        at.query_params[name] = value
    at.run()
    at.switch_page("app_pages/sql.py").run()
    return answered(at) if wait else at


def answered(at: AppTest) -> AppTest:
    """Look again until the answer is there."""
    end = time.monotonic() + 60
    while any(each.value == "Running…" for each in at.caption) and time.monotonic() < end:
        at.run()
    assert not at.exception
    return at


def test_the_query_of_the_address_runs(monkeypatch, run) -> None:
    at = page(
        monkeypatch, run.path.parent, sql="select step, count(*) as n from rollouts group by 1 order by 1"
    )
    table = at.dataframe[0].value
    assert table["step"].tolist() == [1, 2, 3]
    assert table["n"].tolist() == [32, 32, 32]
    columns = at.dataframe[-1].value["column"].tolist()
    assert set(run.columns) <= set(columns)
    assert "metrics.value" in columns


@pytest.mark.parametrize(
    "sql",
    [
        "from read_csv('/etc/passwd')",
        "copy rollouts to 'x.csv'",
        "with x as (copy (select 1) to 'x.csv') select 1",
        "select 1; select 2",
        "set threads = 8",
    ],
)
def test_everything_but_one_select_is_refused_in_one_line(monkeypatch, run, sql) -> None:
    at = page(monkeypatch, run.path.parent, sql=sql)
    assert at.error[0].value == "Not run, or stopped:"
    assert len(at.dataframe) == 1


def test_large_integers_duplicate_names_and_hostile_text_are_shown_as_they_are(monkeypatch, run) -> None:
    text = "<img src=x onerror=alert(1)>"
    sql = f"select 9007199254740993 as id, '{text}' as t, 1 as t, [1, 2] as l, '{'a' * 3000}' as long"
    row = page(monkeypatch, run.path.parent, sql=sql).dataframe[0].value.iloc[0]
    assert row["id"] == "9007199254740993"
    assert (row["t"], row["t (2)"], row["l"]) == (text, 1, "[1,2]")
    assert row["long"].endswith("… (3,000 characters)")


def test_rows_are_capped_and_the_cap_is_said(monkeypatch, run) -> None:
    at = page(monkeypatch, run.path.parent, sql="from range(5000)")
    assert len(at.dataframe[0].value) == 1000
    assert any("first 1,000 of more rows" in each.value for each in at.caption)


def test_a_long_query_shows_a_button_that_ends_it(monkeypatch, run) -> None:
    at = page(monkeypatch, run.path.parent, wait=False, sql=ENDLESS)
    assert len(at.dataframe) == 1
    at.button(key="cancel-sql").click().run()
    assert not at.exception
    assert at.session_state["asked_sql"].result(10) == "the query was cancelled."
    at.run()
    assert any("cancelled" in text.value for text in at.text)


def test_an_example_takes_the_place_of_the_query(monkeypatch, run) -> None:
    at = page(monkeypatch, run.path.parent)
    answered(at.button(key="example-Columns").click().run())
    assert at.text_area(key="sql").value == "describe rollouts"
    assert "step" in at.dataframe[0].value["column_name"].tolist()


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("log", ["team/grpo-seed1", "trl_completions"])
def test_the_examples_run_on_every_log(log, example) -> None:
    from audit.importers import open_run

    assert query(open_run(SAMPLES / log), EXAMPLES[example]).columns


def test_queries_of_others_wait_for_their_turn(run) -> None:
    long = [sql_running.ask(run, ENDLESS, 10, (at,)) for at in range(sql_running.AT_ONCE)]
    waiting, cancelled = (sql_running.ask(run, "select 1", 10, (name,)) for name in ("later", "never"))
    assert waiting.result(0.3) is None
    cancelled.cancel()
    # At once, and not when its turn has come.
    assert cancelled.result(0) == "the query was cancelled."
    assert waiting.result(0) is None
    for each in long:
        each.cancel()
    assert waiting.result(60).rows == [[1]]


def test_a_query_whose_page_was_left_does_not_get_its_turn(run) -> None:
    long = [sql_running.ask(run, ENDLESS, 10, (at,)) for at in range(sql_running.AT_ONCE)]
    left, awaited = (sql_running.ask(run, f"select {at}", 10, (f"{at}",)) for at in range(2))
    left._looked -= sql_running.LEFT + 1
    assert awaited.result(0) is None
    for each in long:
        each.cancel()
    assert awaited.result(60).rows == [[1]]
    assert left.result(60) == "the query was not run: its page was left."
