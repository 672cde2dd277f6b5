"""The dashboard's frame: lists runs, shows foreign text as text, opens nothing outside of its directory."""

from __future__ import annotations

import sys
from pathlib import Path

import audit.app
import pytest
import streamlit as st
from audit.app import context
from audit.app.listing import directory, open_listed, runs_under
from streamlit.testing.v1 import AppTest
from synthetic import rollouts, write

from audit.errors import AuditError

SCRIPT = Path(audit.app.__file__).with_name("streamlit_app.py")
HOSTILE = "<img src=x onerror=alert(1)> **b** $x$ \x1b[2J"


def page(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", *arguments])
    st.cache_data.clear()
    at = AppTest.from_file(str(SCRIPT), default_timeout=300).run()
    assert not at.exception
    return at


def test_it_lists_every_run_and_says_which_cannot_be_read(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one", rollouts(steps=3), "grpo", framework={"name": "trl", "version": "1.16.0"})
    write(tmp_path / "two", rollouts(steps=3, seed=1), "dapo")
    (tmp_path / "torn" / "rollouts").mkdir(parents=True)
    (tmp_path / "torn" / "rollouts" / "part-0.parquet").write_bytes(b"PAR1 not a Parquet file PAR1")
    at = page(monkeypatch, "--logs", str(tmp_path))
    table = at.dataframe[0].value
    assert table["run"].tolist() == ["one", "two"]
    assert table["framework"].tolist() == ["trl 1.16.0", ""]
    assert table["declared"].tolist() == ["grpo", "dapo"]
    assert table["responses"].tolist() == [3 * 4 * 8 * 2] * 2
    (unreadable,) = [element.proto.body for element in at.get("html") if "why" in element.proto.body]
    assert ">torn</td>" in unreadable
    assert "no readable Parquet file" in unreadable


def test_two_visitors_at_once_see_the_same_page(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one", rollouts(steps=2), "grpo")
    began, others = context.begin, []

    def begin(*given: str) -> context.Context:
        if not others:
            # The second comes and is answered while the first looks at the directory.
            others.append(None)
            others[0] = AppTest.from_file(str(SCRIPT), default_timeout=300).run()
        return began(*given)

    monkeypatch.setattr(context, "begin", begin)
    first = page(monkeypatch, "--logs", str(tmp_path))
    assert not others[0].exception
    assert first.dataframe[0].value.equals(others[0].dataframe[0].value)


def test_text_of_a_log_is_never_markdown(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one", rollouts(steps=2), "grpo", run_id=HOSTILE)
    at = page(monkeypatch, "--logs", str(tmp_path))
    assert at.dataframe[0].value["run"].tolist() == [f"one ({HOSTILE})".replace("\x1b", "\\x1b")]
    said = [element.value for kind in (at.markdown, at.title, at.caption, at.info) for element in kind]
    assert not any("onerror" in text for text in said)


def test_a_changed_file_is_read_again(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one", rollouts(steps=2))
    first = page(monkeypatch, "--logs", str(tmp_path)).dataframe[0].value["responses"][0]
    write(tmp_path / "one", rollouts(steps=3))
    st.cache_data.clear()
    st.cache_resource.clear()  # as after the few seconds for which a listing is kept
    second = page(monkeypatch, "--logs", str(tmp_path)).dataframe[0].value["responses"][0]
    assert second > first


@pytest.mark.parametrize(
    ("arguments", "said"), [((), "No directory was given"), (("--logs", "."), "No runs here yet")]
)
def test_nothing_to_show_is_said_in_words(tmp_path, monkeypatch, arguments, said) -> None:
    monkeypatch.chdir(tmp_path)
    at = page(monkeypatch, *arguments)
    assert said in at.info[0].value
    assert not at.dataframe


def test_a_directory_that_is_gone_is_an_error_and_no_traceback(tmp_path, monkeypatch) -> None:
    at = page(monkeypatch, "--logs", str(tmp_path / "gone"))
    assert at.error[0].value == "This directory cannot be read:"


@pytest.mark.parametrize("name", ["../outside", "/etc", "one/../../outside", "", "nothing"])
def test_only_listed_names_open(tmp_path, name) -> None:
    write(tmp_path / "root" / "one", rollouts(steps=2))
    write(tmp_path / "outside", rollouts(steps=2))
    with pytest.raises(AuditError, match="no run"):
        open_listed(tmp_path / "root", name)
    assert open_listed(tmp_path / "root", "one").run_id == "one"


def test_a_link_out_of_the_directory_is_listed_and_refused(tmp_path) -> None:
    write(tmp_path / "outside", rollouts(steps=2))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "linked").symlink_to(tmp_path / "outside")
    (listed,) = runs_under(tmp_path / "root")
    assert "leads out" in listed.error
    with pytest.raises(AuditError, match="leads out"):
        open_listed(tmp_path / "root", "linked")


def test_the_directory_comes_from_the_command_line_alone() -> None:
    assert directory(["--logs", "runs", "--other"]) == Path("runs")
    assert directory([]) is None
