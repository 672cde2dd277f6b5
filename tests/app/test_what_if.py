"""The page What if: the form is read off the types, the address carries it, and numbers follow at once."""

from __future__ import annotations

import json
import sys
from html import unescape
from pathlib import Path

import audit.app
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from synthetic import rollouts, write

from audit.analyses.one_step import one_step
from audit.facts.rows import RunRows
from audit.facts.step_rows import step_rows
from audit.logs import open_run
from audit.objectives.catalogue import named
from audit.objectives.fields import objective_fields
from audit.objectives.objective import PARTS, from_dict
from audit.report.step_words import headline

SCRIPT = Path(audit.app.__file__).with_name("streamlit_app.py")
SAMPLES = Path(__file__).parents[2] / "sample_logs"
HOSTILE = "<img src=x onerror=alert(1)> **b** $x$"


def page(monkeypatch, root: Path, name: str, **query: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    st.cache_data.clear()
    st.cache_resource.clear()
    at = AppTest.from_file(str(SCRIPT), default_timeout=300)
    for key, value in query.items():
        at.query_params[key] = value
    at.run()
    at.switch_page(f"app_pages/{name}.py").run()
    assert not at.exception
    return at


def html(at: AppTest) -> str:
    return unescape("".join(element.proto.body for element in at.get("html")))


def charts(at: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("vega_lite_chart")]


@pytest.fixture
def logs(tmp_path):
    write(tmp_path / "one", rollouts(steps=2), "grpo")
    return tmp_path


def test_it_begins_with_the_runs_own_objective_and_no_difference(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "what_if")
    assert at.selectbox(key="step").value == 4
    assert at.text_input(key="set").value == ""
    assert "The same weights on every token of this step." in html(at)
    assert any("Change a part" in each.value for each in at.caption)
    assert len(charts(at)) == 4


def test_every_field_of_the_objective_has_its_widget(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "what_if")
    keys = {
        widget.key
        for kind in (at.selectbox, at.toggle, at.number_input, at.text_input)
        for widget in kind
        if (widget.key or "").startswith("what-if:")
    }
    parts = {part.name: part for part in objective_fields()}
    wanted = {
        f"what-if:{part.name}.{field.name}" for part in parts.values() for field in part.inner.get("", ())
    }
    kind = named("grpo").clip.kind
    wanted |= {"what-if:clip.kind"} | {f"what-if:clip.{field.name}" for field in parts["clip"].inner[kind]}
    assert wanted <= keys
    assert {key.removeprefix("what-if:").split(".")[0] for key in keys} == set(PARTS)


def test_a_widget_writes_the_change_and_the_numbers_follow(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "what_if", step="4")
    at.selectbox(key="what-if:scale.kind").set_value("none")
    at.run()
    assert at.text_input(key="set").value == "scale.kind=none"
    at.selectbox(key="what-if:clip.kind").set_value("cispo")
    at.run()
    assert not at.exception
    step = step_rows(RunRows.read(open_run(logs / "one")), 4)
    fields = named("grpo").to_dict()
    band = {name: fields["clip"][name] for name in ("epsilon_low", "epsilon_high")}
    fields |= {"clip": {"kind": "cispo", **band}}
    fields["scale"]["kind"] = "none"
    assert headline(one_step(step, named("grpo"), from_dict(fields))) in html(at)


def test_the_address_alone_brings_the_objective_back(logs, monkeypatch) -> None:
    text = '\'clip={"kind":"none"}\' kl.loss=null aggregation.kind=token-mean'
    at = page(monkeypatch, logs, "what_if", step="2", set=text, measure="weight of a token")
    assert at.selectbox(key="step").value == 2
    assert charts(at)[0]["layer"][0]["encoding"]["y"]["title"] == "weight of a token, mean = 1"
    shown = json.loads(at.get("code")[-1].value)
    assert (shown["clip"], shown["kl"]["loss"]) == ({"kind": "none"}, None)
    assert shown["aggregation"]["kind"] == "token-mean"
    assert at.selectbox(key="what-if:aggregation.kind").value == "token-mean"
    next(button for button in at.button if button.label == "Reset").click()
    at.run()
    assert at.text_input(key="set").value == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scale.knd=1", "unknown field `knd`"),
        ("scale.ddof=7", "Invalid enum value"),
        ("clip.epsilon_low='", "No closing quotation"),
        ("nothing", "expected FIELD=VALUE"),
        (HOSTILE, "expected FIELD=VALUE"),
        ("ratio.denominator=theta ratio.level=sequence", "ratio.level must be 'token'"),
    ],
)
def test_what_is_no_objective_is_said_as_text(logs, monkeypatch, text, said) -> None:
    at = page(monkeypatch, logs, "what_if", set=text)
    assert any(said in element.value for element in at.text)
    assert at.error
    assert not any("onerror" in e.value for kind in (at.markdown, at.caption, at.error) for e in kind)


def test_a_list_and_a_group_open_their_fields(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "what_if")
    at.number_input(key="what-if:ratio.corrections").set_value(1)
    at.run()
    at.toggle(key="what-if:scale.whiten").set_value(True)
    at.run()
    at.toggle(key="what-if:scale.clip").set_value(True)
    at.run()
    at.number_input(key="what-if:scale.clip.low").set_value(-2.0)
    at.run()
    assert not at.exception
    assert at.selectbox(key="what-if:ratio.corrections.0.action").value == "truncate"
    assert at.selectbox(key="what-if:scale.whiten.level").value == "token"
    assert "scale.clip=[-2.0,1.0]" in at.text_input(key="set").value
    assert any("ratio taken out: the log has no logp_sampler" in text.value for text in at.text)


def test_a_run_that_declares_nothing_is_compared_with_what_one_starts_from(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one", rollouts(steps=1))
    at = page(monkeypatch, tmp_path, "what_if", set="scale.kind=none")
    assert at.selectbox(key="from").value == "grpo"
    assert "not known" in at.info[0].value
    assert "1 - cosine" in html(at)


def test_a_log_without_tokens_says_what_it_needs(tmp_path, monkeypatch) -> None:
    rows = [
        {
            "step": 1,
            "group_id": f"g{i // 4}",
            "prompt_id": "p",
            "sample_index": i % 4,
            "reward": float(i % 3 == 0),
        }
        for i in range(8)
    ]
    write(tmp_path / "one", rows, "grpo")
    at = page(monkeypatch, tmp_path, "what_if")
    assert any("token_ids" in text.value for text in at.text)


@pytest.mark.parametrize("name", ["gspo-seed1", "cispo-seed1"])
def test_sample_logs(name, monkeypatch) -> None:
    at = page(monkeypatch, SAMPLES / "team", "what_if", run=name, **{"from": "dapo"})
    assert "direction" in html(at)
