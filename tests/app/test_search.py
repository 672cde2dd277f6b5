"""The page Search: hits of a loop, marked and escaped, each linked to its tokens; the address filters."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import audit.app
import pytest
import streamlit as st
from audit.app.hits import tokens_of
from streamlit.testing.v1 import AppTest
from synthetic import rollouts, write

from audit.logs.search import Hit
from audit.logs.search_marks import Piece
from audit.report.marked_html import marked

APP = Path(audit.app.__file__).parent
SAMPLES = Path(__file__).parents[2] / "sample_logs"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> **b** $x$ \x1b[2J</mark>"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    rows = rollouts(steps=3, epochs=1)
    for at, row in enumerate(rows):
        row["response"] = f"{HOSTILE} needle" if at % 4 == 0 else f"hay {at}"
    write(folder / "one", rows)
    bare = [{k: v for k, v in row.items() if k not in {"prompt", "response"}} for row in rows]
    write(folder / "bare", bare)
    return folder


def page(monkeypatch: pytest.MonkeyPatch, root: Path, **address: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    st.cache_data.clear()
    at = AppTest.from_file(str(APP / "streamlit_app.py"), default_timeout=60)
    for name, value in address.items():
        at.query_params[name] = value
    at.run()
    at.switch_page("app_pages/search.py").run()
    assert not at.exception
    return at


def hits(at: AppTest) -> list[str]:
    return [element.proto.body for element in at.get("html") if 'class="hit"' in element.proto.body]


def said(at: AppTest) -> str:
    return next(each.value for each in at.markdown if "response" in each.value)


def test_without_a_filter_every_response_is_there_page_by_page(monkeypatch, logs) -> None:
    at = page(monkeypatch, logs, run="one")
    assert "**96 responses**, 1 to 20" in said(at)
    assert len(hits(at)) == 20
    links = [element.proto.url for element in at.get("link_button")]
    assert len(set(links)) == 20
    assert links[0] == "tokens?run=one&step=1&group=0-0&sample=0"


def test_matches_are_marked_and_text_of_the_log_does_not_act(monkeypatch, logs) -> None:
    at = page(monkeypatch, logs, run="one", q="NEEDLE")
    assert "**24 responses**" in said(at)
    for body in hits(at):
        assert "<mark>needle</mark>" in body
        assert body.count("<mark>") == body.count("</mark>") == 1
        assert "<img" not in body
        assert "<script" not in body
        assert "&lt;img src=x" in body
        assert "\x1b" not in body
    shown = [element.value for kind in (at.markdown, at.title, at.caption, at.info) for element in kind]
    assert not any("onerror" in text for text in shown)


def test_filters_of_the_page_narrow_the_hits(monkeypatch, logs) -> None:
    at = page(monkeypatch, logs, run="one", q="^hay [0-9]$", regex="true")
    assert "**7 responses**" in said(at)  # hay 1 to 9 without 4 and 8
    at.text_input(key="in_group").set_value("0-0").run()
    assert "**6 responses**" in said(at)
    at.text_input(key="q").set_value("(").run()
    assert at.warning[0].value == "This log cannot answer that:"
    assert any("regular expression" in text.value for text in at.text)
    at.text_input(key="q").set_value("no such text").run()
    assert at.info[0].value == "No response matches all of that."


def test_what_a_log_does_not_hold_cannot_be_asked(monkeypatch, logs) -> None:
    at = page(monkeypatch, logs, run="bare")
    assert at.text_input(key="q").disabled
    assert at.text_input(key="in_prompt").disabled
    assert at.selectbox(key="right").disabled
    assert len(hits(at)) == 20


@pytest.mark.parametrize("folder", ["team", "testbed", "trl_completions"])
def test_it_opens_on_the_sample_logs(monkeypatch, folder) -> None:
    assert hits(page(monkeypatch, SAMPLES / folder))


def test_ids_of_a_log_stay_inside_of_the_link() -> None:
    hit = Hit(
        step=1,
        epoch=0,
        group_id="//evil.example/?a&run=other#x",
        sample_index=0,
        prompt_id="p",
        reward=None,
        correct=None,
        finish_reason=None,
        length=None,
        prompt=[],
        response=[],
    )
    found = parse_qs(urlsplit(tokens_of(hit, "one")).query)
    assert found == {"run": ["one"], "step": ["1"], "group": [hit.group_id], "sample": ["0"]}


def test_marks_are_the_only_markup() -> None:
    shown = marked([Piece("a<b>\n\u202e", False), Piece("<mark>", True)])
    assert shown == "a&lt;b&gt;\n\\u202e<mark>&lt;mark&gt;</mark>"
