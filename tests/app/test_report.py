"""The page Report: made on demand from what the pages know, offered as three files."""

from __future__ import annotations

import sys
from pathlib import Path

import audit.app
import pytest
import streamlit as st
from audit.app.report_making import file_name
from streamlit.testing.v1 import AppTest
from synthetic import rollouts, write

from audit.report.run_report import run_report

APP = Path(audit.app.__file__).parent
HOSTILE = "<img src=x> **b** ../../etc/passwd"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    write(folder / "one", rollouts(steps=3), "grpo", run_id=HOSTILE)
    write(folder / "two", rollouts(steps=3, seed=1), "dr_grpo")
    return folder


def page(monkeypatch: pytest.MonkeyPatch, root: Path, **address: object) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    st.cache_data.clear()
    at = AppTest.from_file(str(APP / "streamlit_app.py"), default_timeout=120)
    for name, value in address.items():
        at.query_params[name] = value
    at.run()
    at.switch_page("app_pages/report.py").run()
    assert not at.exception
    return at


def test_it_is_made_when_asked_for_and_names_its_sections(monkeypatch, logs) -> None:
    at = page(monkeypatch, logs, run=["one", "two"], sections=["summary", "explain"])
    assert not at.get("download_button")
    at.button[0].click().run()
    assert not at.exception
    table = at.dataframe[0].value
    assert table["section"].tolist() == ["Why the runs differ", "What the log holds", "What the log holds"]
    assert table[""].tolist() == ["in the report"] * 3
    assert [each.proto.label for each in at.get("download_button")] == ["HTML", "Markdown", "JSON"]
    shown = [each.value for kind in (at.markdown, at.title, at.caption, at.info) for each in kind]
    assert not any("<img" in text for text in shown)


def test_another_choice_is_another_report(monkeypatch, logs) -> None:
    at = page(monkeypatch, logs, run="two", sections=["summary"])
    at.button[0].click().run()
    assert at.get("download_button")
    at.toggle(key="hash").set_value(False).run()
    assert not at.get("download_button")


def test_one_run_has_nothing_to_explain(monkeypatch, logs) -> None:
    at = page(monkeypatch, logs, run="one")
    assert "explain" not in at.get("button_group")[0].options


def test_the_name_of_the_file_is_safe(logs) -> None:
    from audit.logs import open_run

    report = run_report([open_run(logs / "one")], ["summary"], measure=lambda *_: "", hashed=False)
    assert file_name(report, "html") == "rlaudit-img-src-x-b-..-..-etc-passwd.html"
