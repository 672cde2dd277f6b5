"""The page Tokens: a group side by side, the heat map, and the formula of one token."""

from __future__ import annotations

import math
import re
import sys
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs

import audit.app
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from synthetic import rollouts, write

SCRIPT = Path(audit.app.__file__).with_name("streamlit_app.py")
SAMPLES = Path(__file__).parents[2] / "sample_logs"
HOSTILE = "<img src=x onerror=alert(1)> **b** $x^2$ \u202e\x00\n</a>"


def page(monkeypatch, root: Path, **query: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    st.cache_data.clear()
    st.cache_resource.clear()
    at = AppTest.from_file(str(SCRIPT), default_timeout=300)
    for key, value in query.items():
        at.query_params[key] = value
    at.run()
    at.switch_page("app_pages/tokens.py").run()
    assert not at.exception
    return at


def html(at: AppTest) -> str:
    return "".join(element.proto.body for element in at.get("html"))


@pytest.fixture
def logs(tmp_path):
    write(tmp_path / "one", rollouts(steps=2, longest=12), "grpo")
    return tmp_path


def test_a_link_leads_to_the_formula_of_one_token(logs, monkeypatch) -> None:
    made = rollouts(steps=2, longest=12)
    row = next(r for r in made if r["step"] == 4 and r["group_id"] == "1-2" and r["sample_index"] == 3)
    at = page(monkeypatch, logs, run="one", step="4", group="1-2", sample="3", token="0", colour="ratio")
    (text,) = [code.value for code in at.get("code") if code.value.startswith("w = ")]
    assert text.startswith("w = Z · A · c + k = ")
    values = dict(
        re.findall(r'data-name="">([^<]*)</td><td class="r w" data-name="value">([^<]*)</td>', html(at))
    )
    ratio = math.exp(row["logp_theta"][0] - row["logp_old"][0])
    assert float(values["ρ"]) == pytest.approx(ratio, rel=1e-4)
    assert html(at).count("<a href=") == row["length"]
    assert "token=0" in html(at)
    assert "outline:2px solid" in html(at)


def test_every_link_of_the_map_brings_its_own_page_back(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, step="4", group="1-2", sample="2", colour="log-prob gap", **{"from": "dapo"})
    href = unescape(re.findall(r'<a href="([^"]*)"', html(at))[-1])
    query = {name: values[0] for name, values in parse_qs(href.removeprefix("?")).items()}
    again = page(monkeypatch, logs, **query)
    assert again.session_state["colour"] == "log-prob gap"
    assert again.selectbox(key="from").value == "dapo"
    assert (again.selectbox(key="group").value, again.session_state["sample"]) == ("1-2", "2")
    assert again.number_input(key="token").value == html(at).count("<a href=") - 1


def test_the_group_is_side_by_side_with_advantages_under_several_objectives(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, step="4", group="1-2")
    table = at.dataframe[0].value
    assert table["sample"].tolist() == [str(i) for i in range(8)]
    rewards = table["reward"].tolist()
    mean = sum(rewards) / 8
    assert table["A · dr_grpo"].tolist() == pytest.approx([reward - mean for reward in rewards])
    assert {"A · the run's own", "A · grpo", "A · rloo"} <= set(table)


def test_characters_are_shown_where_the_log_proves_them(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, step="4")
    assert any("Each token is one character" in caption.value for caption in at.caption)
    assert "⟨" not in html(at)


def test_hostile_text_is_text(tmp_path, monkeypatch) -> None:
    rows = rollouts(steps=1, epochs=1, longest=1)
    for row in rows:
        row["response"] = row["prompt"] = row["group_id"] = row["prompt_id"] = HOSTILE
        row["sample_index"] = int(row["micro_batch"]) * 8 + row["sample_index"]
        row["token_ids"] = [7]
    write(tmp_path / "one", rows, "grpo")
    at = page(monkeypatch, tmp_path, token="0")
    assert "<img" not in html(at)
    assert "&lt;img␣src=x" in html(at)
    said = [e.value for kind in (at.markdown, at.title, at.caption, at.info) for e in kind]
    assert not any("onerror" in text for text in said)


def test_a_long_response_is_shown_a_window_at_a_time(tmp_path, monkeypatch) -> None:
    rows = rollouts(steps=1, epochs=1, groups=1, size=2)
    for row in rows:
        for name in ("token_ids", "loss_mask", "logp_old", "logp_ref", "logp_theta"):
            row[name] = (row[name] * 2_500)[:2_500]
        row["length"] = 2_500
        row["response"] = None
    write(tmp_path / "one", rows, "grpo")
    at = page(monkeypatch, tmp_path, page="3", token="2400")
    assert html(at).count("<a href=") == 500
    assert any("Tokens 2,000 to 2,499 of 2,500" in caption.value for caption in at.caption)
    assert "⟨" in html(at)


def test_a_large_group_has_no_button_for_each_response(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one", rollouts(steps=1, epochs=1, prompts=1, groups=1, size=200, longest=3), "grpo")
    at = page(monkeypatch, tmp_path, sample="150")
    assert len(at.selectbox(key="sample").options) == 200
    assert at.selectbox(key="sample").value == "150"
    assert "sample=150" in html(at)
    assert max(len(group.options) for group in at.button_group) < 20


@pytest.mark.parametrize("token", ["1e400", "9" * 400, "-1", "nan", "<b>", ""])
def test_what_is_no_token_is_left_out(logs, monkeypatch, token) -> None:
    at = page(monkeypatch, logs, run="one", token=token)
    assert at.number_input[0].value is None


def test_a_choice_of_another_run_is_forgotten(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, step="77", group="nothing", sample="99", token="5000", colour="entropy")
    assert at.selectbox(key="step").value == 4
    assert at.number_input(key="token").value is None


def test_a_log_without_tokens_shows_its_group_and_says_why_there_are_no_weights(
    tmp_path, monkeypatch
) -> None:
    rows = [
        {
            "step": 1,
            "prompt_id": "p",
            "group_id": f"g{i // 4}",
            "sample_index": i % 4,
            "reward": float(i % 3 == 0),
            "response": f"answer {i}",
        }
        for i in range(8)
    ]
    write(tmp_path / "one", rows, "grpo")
    at = page(monkeypatch, tmp_path)
    assert len(at.dataframe[0].value) == 4
    assert any("token_ids" in text.value for text in at.text)
    assert any(code.value == "answer 0" for code in at.get("code"))


@pytest.mark.parametrize(("name", "objective"), [("gspo-seed1", "cispo"), ("rloo-seed1", "gspo")])
def test_sample_logs(name, objective, monkeypatch) -> None:
    at = page(monkeypatch, SAMPLES / "team", run=name, token="1", **{"from": objective})
    assert at.get("html")
    assert any(code.value.startswith("w = ") for code in at.get("code"))


def test_what_a_log_does_not_hold_is_a_dash(tmp_path, monkeypatch) -> None:
    kept = ("step", "epoch", "prompt_id", "group_id", "sample_index", "reward")
    write(
        tmp_path / "one", [{name: row[name] for name in kept} for row in rollouts(steps=1, epochs=1)], "grpo"
    )
    at = page(monkeypatch, tmp_path)
    table = at.dataframe[0]
    assert table.value["length"].isna().all()
    assert table.proto.placeholder == "–"
