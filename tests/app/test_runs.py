"""The page Runs: a row a run with its numbers, states and curves; filter and choice are in the address."""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

import audit.app
import pytest
import streamlit as st
from audit.app import run_table
from audit.app.listing import Listed
from loose import write_loose
from streamlit.testing.v1 import AppTest
from synthetic import centred, rollouts, with_advantages, write

SCRIPT = Path(audit.app.__file__).with_name("streamlit_app.py")
SAMPLES = Path(__file__).parents[2] / "sample_logs"
HOSTILE = "<img src=x onerror=alert(1)> **b** $x$ [a](http://x) \u202e"


def page(monkeypatch, root: Path, **query: str | list[str]) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    st.cache_data.clear()
    st.cache_resource.clear()
    at = AppTest.from_file(str(SCRIPT), default_timeout=300)
    for key, value in query.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception
    return at


def table(at: AppTest):
    return at.dataframe[0].value


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    rows = with_advantages(rollouts(steps=4), centred)
    for row in rows:
        row["advantage"] *= 3.0 if row["sample_index"] == 0 else 1.0
    write(root / "other", rows, "grpo", framework={"name": "trl", "version": "1.16.0"})
    write(root / "plain", rollouts(steps=4, seed=1), "dapo")
    long_ago = time.time() - 3600
    for file in (root / "plain").rglob("*"):
        os.utime(file, (long_ago, long_ago))
    return root


def test_a_row_tells_what_the_run_is(logs, monkeypatch) -> None:
    shown = table(page(monkeypatch, logs))
    assert shown["run"].tolist() == ["other", "plain"]
    assert [list(state) for state in shown["state"]] == [["≠ declared", "writing"], []]
    assert shown["problems"][0] == "the logged advantages contradict the declared objective"
    assert shown["steps"].tolist() == [8, 8]
    assert shown["tokens"][1] == sum(row["length"] for row in rollouts(steps=4, seed=1))
    assert shown["tier"].tolist() == [5, 5]
    assert shown["shown by the log"][0].startswith("✗")
    assert shown["shown by the log"][1] == "–"


def test_the_curves_are_means_of_the_first_pass(logs, monkeypatch) -> None:
    shown = table(page(monkeypatch, logs))
    rows = [row for row in rollouts(steps=4, seed=1) if row["epoch"] == 0]
    for column, name in (("reward", "reward"), ("lengths", "length")):
        by_step = {s: [r[name] for r in rows if r["step"] == s] for s in sorted({r["step"] for r in rows})}
        assert list(shown[column][1]) == pytest.approx([statistics.fmean(v) for v in by_step.values()])


def test_the_filter_takes_every_word_and_keeps_what_it_hides(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, find="DAPO pla", run=["other", "plain"])
    assert table(at)["run"].tolist() == ["plain"]
    assert at.session_state["runs_table"]["selection"]["rows"] == [0]
    assert at.session_state["run"] == ["other", "plain"]
    none = page(monkeypatch, logs, find="nothing like it")
    assert not none.dataframe
    assert "No run matches" in none.info[0].value


def test_the_address_ticks_the_rows_and_opens_compare(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, run=["plain", "other"])
    assert at.session_state["runs_table"]["selection"]["rows"] == [1, 0]
    links = {link.proto.label: link.proto.disabled for link in at.get("page_link")}
    assert links["Compare 2"] is False
    assert "Length" in links
    alone = {link.proto.label: link.proto.disabled for link in page(monkeypatch, logs).get("page_link")}
    assert alone == {"Compare": True}


def test_text_of_a_log_stays_text(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one", rollouts(steps=2), "grpo", run_id=HOSTILE, framework={"name": HOSTILE})
    at = page(monkeypatch, tmp_path, run="one")
    assert "\\u202e" in table(at)["run"][0]
    said = [e.value for kind in (at.markdown, at.title, at.caption, at.info, at.subheader) for e in kind]
    assert not any("onerror" in text for text in said)
    assert "<img" not in "".join(element.proto.body for element in at.get("html"))


def test_a_run_that_is_not_read_yet_has_a_row_of_the_same_columns() -> None:
    run = Listed("a/b", "b", "trl", (("f", 1, 2),))
    made = run_table.pending(run, "#000000", 1.0, run_table.READING)
    assert set(made) == set(run_table.ORDER)
    assert run_table.matches(made, "reading trl")
    assert run_table.order([made]) == [name for name in run_table.ORDER if name != "problems"]


def test_curves_share_a_scale_unless_one_lies_far_away() -> None:
    def ends(*curves: list[float]) -> tuple[float | None, float | None]:
        config = run_table.columns([{"reward": curve, "lengths": []} for curve in curves])
        return config["reward"]["type_config"]["y_min"], config["reward"]["type_config"]["y_max"]

    assert ends([0.1, 0.5], [0.4, 0.9], []) == (0.1, 0.9)
    assert ends([0.1, 0.5], [0.4, 0.9], [1e9, 2e9]) == (None, None)
    assert ends([], [0.5]) == (None, None)


def test_a_run_whose_rows_cannot_be_read_is_told(tmp_path, monkeypatch) -> None:
    rows = rollouts(steps=2)
    rows[3]["step"] = None
    write_loose(tmp_path / "null", rows)
    at = page(monkeypatch, tmp_path)
    assert [list(state) for state in table(at)["state"]] == [["not read"]]
    assert "step is null in 1 of" in "".join(element.proto.body for element in at.get("html"))


@pytest.mark.parametrize("folder", ["team", "testbed", ""])
def test_every_sample_log_has_a_row(folder, monkeypatch) -> None:
    shown = table(page(monkeypatch, SAMPLES / folder))
    assert all(shown["responses"] > 0)
    assert all(len(curve) > 5 for curve in shown["reward"])
