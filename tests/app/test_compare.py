"""The page Compare: verdict, waterfall, timeline, weights and texts of two runs; the matrix of several."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import audit.app
import pytest
from streamlit.testing.v1 import AppTest
from synthetic import centred, rollouts, standardised, with_advantages, write

from audit.analyses.explain import explain
from audit.logs import open_run

SCRIPT = Path(audit.app.__file__).with_name("streamlit_app.py")
SAMPLES = Path(__file__).parents[2] / "sample_logs"
HOSTILE = "<img src=x onerror=alert(1)> **b** $x$ \u202e\nline two</pre><script>"


def page(monkeypatch, root: Path, *runs: str, **query: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    at = AppTest.from_file(str(SCRIPT), default_timeout=300)
    for key, value in {"run": list(runs), **query}.items():
        at.query_params[key] = value
    at.switch_page("app_pages/compare.py").run()
    assert not at.exception
    return at


def html(at: AppTest) -> str:
    return "".join(element.proto.body for element in at.get("html"))


def charts(at: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("vega_lite_chart")]


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    write(root / "a", with_advantages(rollouts(steps=6), standardised(0, 0.0)), "grpo")
    write(root / "b", with_advantages(rollouts(steps=6, seed=1), centred), "dr_grpo")
    write(root / "c", with_advantages(rollouts(steps=6, seed=2), centred), "dr_grpo")
    return root


def test_causes_are_those_of_explain(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "a", "b")
    x = explain(open_run(logs / "a"), open_run(logs / "b"))
    shown = html(at)
    assert x.verdict.causes
    assert all(cause.id in shown for cause in x.verdict.causes)
    assert f"A · grpo · {x.runs[0].responses:,} responses" in shown
    assert len(charts(at)) == 1
    said = " ".join(caption.value for caption in at.caption)
    assert f"{max(e.tokens for e in x.effects):,} tokens" in said
    assert all(row.field in shown for row in x.declared.differs if row.field.endswith(".kind"))


def test_without_a_choice_two_runs_are_picked_on_the_page(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "c")
    assert not charts(at)
    assert at.multiselect(key="to_compare").value == ["c"]
    (compare,) = [button for button in at.main.get("button") if button.label == "Compare"]
    assert compare.disabled
    at.multiselect(key="to_compare").set_value(["c", "a"]).run()
    (compare,) = [button for button in at.main.get("button") if button.label == "Compare"]
    compare.click()
    at.run()
    assert at.session_state["run"] == ["c", "a"]
    assert html(at).index(">c<") < html(at).index(">a<")
    assert charts(at)


def test_an_address_with_an_unknown_run_gets_no_answer_for_another(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "a", "nosuch")
    assert at.error[0].value.startswith("Refused")
    assert [text.value for text in at.main.get("text")] == ["nosuch"]
    assert not charts(at)
    assert [link.proto.label for link in at.main.get("page_link")] == ["Choose on the page Runs"]


def test_over_steps_has_a_chart_a_metric_and_says_what_parted(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "a", "b", view="Over steps")
    x = explain(open_run(logs / "a"), open_run(logs / "b"))
    titles = [each.value.strip("*") for each in at.markdown]
    assert {"reward", "length", "zero-signal share", "truncated share"} <= set(titles)
    assert {course.metric for course in x.timeline.courses} <= set(titles)
    moved = len(x.timeline.parted)
    headings = {"Which metric parted first", "Not parted beyond noise, or not tested"}
    assert len(charts(at)) == 1 + len(set(titles) - headings) + moved


def test_weights_are_shown_by_length_difficulty_and_sign(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "a", "b", view="Weights")
    axes = [chart["layer"][0]["encoding"]["x"]["title"] for chart in charts(at)]
    assert axes == ["tokens", "success rate, %", "sign of the weight"]


def test_the_same_prompt_in_both_runs_shows_their_texts(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "a", "b", view="Same prompts", prompt="p3")
    last = max(row["step"] for row in rollouts(steps=6) if row["prompt_id"] == "p3" and row["epoch"] == 0)
    texts = [row["response"] for row in rollouts(steps=6) if row["prompt_id"] == "p3" and row["step"] == last]
    assert at.query_params["prompt"] in ("p3", ["p3"])
    (picker,) = [each for each in at.selectbox if each.key == "shared_prompt"]
    assert picker.value == "p3"
    assert "question 3 · p3" in picker.options
    assert all(f">{text}</pre>" in html(at) for text in texts)
    assert "question 3" in html(at)


def test_several_runs_have_a_matrix_and_clusters(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "a", "b", "c")
    assert [len(chart["layer"]) for chart in charts(at)] == [2]
    assert "cluster 2" in html(at)
    pairs = at.dataframe[-1].value
    assert pairs[["A", "B"]].to_numpy().tolist() == [["a", "b"], ["a", "c"], ["b", "c"]]
    steps = page(monkeypatch, logs, "a", "b", "c", many="Over steps")
    colours = charts(steps)[0]["layer"][0]["encoding"]["color"]["scale"]
    assert colours["domain"] == ["a", "b", "c"]
    assert len(set(colours["range"])) == 3


def test_one_run_alone_is_told_so(tmp_path, monkeypatch) -> None:
    write(tmp_path / "one", rollouts(steps=2))
    at = page(monkeypatch, tmp_path)
    assert "takes two runs" in at.info[0].value


def test_text_of_a_log_stays_text(tmp_path, monkeypatch) -> None:
    for name in ("one", "two"):
        rows = rollouts(steps=3, seed=len(name), prompts=2)
        for row in rows:
            row |= {"response": HOSTILE, "prompt": HOSTILE, "prompt_id": HOSTILE, "finish_reason": HOSTILE}
        write(tmp_path / name, rows, "grpo", run_id=f"{HOSTILE}{name}")
    for view in ("Causes", "Same prompts"):
        at = page(monkeypatch, tmp_path, "one", "two", view=view)
        said = [e.value for kind in (at.markdown, at.title, at.caption, at.info, at.warning) for e in kind]
        assert not any("onerror" in text for text in said)
        assert "<img" not in html(at)
        assert "<script" not in html(at)
    assert "&lt;img src=x onerror=alert(1)&gt; **b** $x$ \\u202e\nline two" in html(at)


@pytest.mark.parametrize("view", ["Causes", "Over steps", "Weights", "Same prompts"])
def test_logs_of_rewards_alone_say_what_they_lack(tmp_path, monkeypatch, view) -> None:
    kept = ("step", "epoch", "prompt_id", "group_id", "sample_index", "reward")
    for name in ("one", "two"):
        rows = [{key: row[key] for key in kept} for row in rollouts(steps=3, seed=len(name), epochs=1)]
        write(tmp_path / name, rows)
    at = page(monkeypatch, tmp_path, "one", "two", view=view)
    assert any(label.label.startswith("Not shown by this log") for label in at.expander)


@pytest.mark.parametrize(
    ("folder", "runs"),
    [
        ("team", ("gspo-seed1", "cispo-seed1")),
        ("testbed", ("dapo-seed0", "gspo-seed0")),
        ("", ("trl_completions", "team/grpo-seed1")),
    ],
)
def test_sample_logs_compare(folder, runs, monkeypatch) -> None:
    at = page(monkeypatch, SAMPLES / folder, *runs)
    assert all(f"<b>{run}</b>" in html(at) for run in runs)
    assert not at.warning
