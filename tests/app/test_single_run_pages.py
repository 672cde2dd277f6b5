"""The pages of one run: their charts carry the numbers of the analyses, whatever the log holds."""

from __future__ import annotations

import re
import sys
from math import comb, sqrt
from pathlib import Path

import audit.app
import polars as pl
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest
from synthetic import rollouts, standardised, with_advantages, write

import audit as rlaudit
from audit.analyses.length import LengthBias

SCRIPT = Path(audit.app.__file__).with_name("streamlit_app.py")
PAGES = ("length", "groups", "clipping", "kl", "mismatch")
HOSTILE = "<img src=x onerror=alert(1)> **b** $x$ \u202e\nline two</pre><script>"


def page(monkeypatch, root: Path, name: str, **query: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(root)])
    at = AppTest.from_file(str(SCRIPT), default_timeout=300)
    for key, value in query.items():
        at.query_params[key] = value
    at.switch_page(f"app_pages/{name}.py").run()
    assert not at.exception
    return at


def html(at: AppTest) -> str:
    return "".join(element.proto.body for element in at.get("html"))


def values(at: AppTest, title: str, field: str = "value") -> list[float]:
    """Every value of a field in the data of the chart with this alternative text."""
    (chart,) = [each for each in at.get("vega_lite_chart") if each.proto.alt == title]
    sent = [each.data.data for each in chart.proto.datasets] or [chart.proto.data.data]
    frames = [pl.DataFrame(pa.ipc.open_stream(data).read_all()) for data in sent]
    return [x for frame in frames if field in frame.columns for x in frame[field].drop_nulls().to_list()]


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    rows = with_advantages(rollouts(steps=6, prompts=4), standardised(0, 0.0))
    for row in rows:
        row["logp_sampler"] = [x - 0.01 for x in row["logp_old"]]
        row["prompt"] = HOSTILE
        row["response"] = f"{HOSTILE} {row['response']}"
    write(root / "one", rows, "grpo")
    return root


@pytest.fixture(scope="module")
def length(logs) -> LengthBias:
    return rlaudit.length_bias(logs / "one")


@pytest.fixture(scope="module")
def partial(tmp_path_factory) -> Path:
    """A log without groups, which cannot be read, and one with them and nothing more."""
    root = tmp_path_factory.mktemp("partial")
    columns = ("step", "prompt_id", "response", "reward", "group_id", "sample_index")
    for name, count in (("ungrouped", 4), ("grouped", 6)):
        (root / name / "rollouts").mkdir(parents=True)
        rows = pl.DataFrame(rollouts(steps=3, epochs=1)).select(columns[:count])
        rows.write_parquet(root / name / "rollouts" / "part-0.parquet")
    return root


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("run", ["ungrouped", "grouped"])
def test_a_partial_log_says_what_it_lacks(partial, monkeypatch, run, name) -> None:
    at = page(monkeypatch, partial, name, run=run)
    said = " ".join(element.value for element in at.text)
    assert "needs " in said or "no column" in said or name == "groups"
    assert not [each for each in at.markdown if "onerror" in each.value]


def test_length_shows_push_drift_and_distributions(logs, length, monkeypatch) -> None:
    at = page(monkeypatch, logs, "length")
    both = length.push_and_drift
    pushed = values(at, "Cumulative push of the weights")
    assert sorted(pushed) == pytest.approx(
        sorted(x for side in (both.correct, both.wrong) for x in side.cumulative if x is not None)
    )
    at = page(monkeypatch, logs, "length", view="Distributions")
    rows = [row for row in rollouts(steps=6, prompts=4) if row["epoch"] == 0]
    for side, reward in (("correct", 1.0), ("wrong", 0.0)):
        lengths = values(at, f"Length of {side} responses", "length")
        logged = [row["length"] for row in rows if row["reward"] == reward]
        assert (min(lengths), max(lengths)) == (min(logged), max(logged))
    assert f">{sum(row['reward'] == 1.0 and row['step'] <= 3 for row in rows)}</td>" in html(at)


def test_objectives_and_confounds_of_length(logs, length, monkeypatch) -> None:
    pushes = values(
        page(monkeypatch, logs, "length", view="Objectives"), "Push of every objective on the same rollouts"
    )
    grpo = next(each for each in length.per_objective if each.objective == "grpo")
    assert any(x == pytest.approx(grpo.pressure.correct.value) for x in pushes)
    assert "cut off by length" in html(page(monkeypatch, logs, "length", view="Confounds"))


def test_groups_show_the_share_and_the_exact_weight_of_a_prompt(logs, monkeypatch) -> None:
    result = rlaudit.groups(logs / "one")
    at = page(monkeypatch, logs, "groups")
    shown = values(at, "Groups without signal over steps")
    assert all(any(x == pytest.approx(part.observed.value) for x in shown) for part in result.by_step)
    at = page(monkeypatch, logs, "groups", view="Weights")
    factors = values(at, "Weight of a prompt by success rate")
    # GRPO with the population's std: at p = 1/2 the mean of sqrt(f (1 - f)) over Bin(8, 1/2), over 1/4.
    exact = sum(comb(8, k) / 2**8 * sqrt(k / 8 * (1 - k / 8)) for k in range(9)) / 0.25
    assert any(x == pytest.approx(exact, rel=1e-4) for x in factors)
    shares = rlaudit.prompts(logs / "one", top=100).shares
    lorenz = values(at, "How unequal the gradient is between prompts", "y")
    assert all(any(y == pytest.approx(at[1]) for y in lorenz) for at in shares[0].lorenz)


def test_a_prompt_is_in_the_address_and_its_texts_stay_text(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "groups", prompt="p1")
    assert at.selectbox(key="prompt").value == "p1"
    rows = [row for row in rollouts(steps=6, prompts=4) if row["epoch"] == 0 and row["prompt_id"] == "p1"]
    by_step: dict[int, list[float]] = {}
    for row in rows:
        by_step.setdefault(row["step"], []).append(row["reward"])
    assert values(at, "Success over steps") == pytest.approx(
        [sum(found) / len(found) for _, found in sorted(by_step.items())]
    )
    shown = html(at)
    assert "&lt;img src=x" in shown
    assert "<img" not in shown
    assert "<script" not in shown
    last = [row for row in rows if row["step"] == max(by_step)]
    assert f"tokens?run=one&amp;step={max(by_step)}&amp;group={last[0]['group_id']}" in shown
    assert "onerror" not in "".join(each.value for kind in (at.markdown, at.caption) for each in kind)


def test_a_prompt_that_was_never_drawn_is_said(logs, monkeypatch) -> None:
    at = page(monkeypatch, logs, "groups", prompt="<b>p99</b>")
    assert "This run never drew this prompt." in [each.value for each in at.info]


def test_clipping_by_part_and_at_other_widths(logs, monkeypatch) -> None:
    result = rlaudit.clipping(logs / "one")
    at = page(monkeypatch, logs, "clipping")
    assert values(at, "By side") == pytest.approx([bucket.value.value for bucket in result.by["side"]])
    assert values(at, "Over steps") == pytest.approx([bucket.value.value for bucket in result.steps.points])
    at = page(monkeypatch, logs, "clipping", view="Other bounds")
    curve = values(at, "Clip-zeroed share over epsilon")
    # The run's own band is one of the widths; a wider one never removes more.
    assert any(x == pytest.approx(result.share.value) for x in curve)
    assert curve == sorted(curve, reverse=True)
    assert all(each.objective in html(at) for each in result.bounds)
    at = page(monkeypatch, logs, "clipping", view="Tokens")
    shown = re.findall(r'data-name="id">([^<]*)<', html(at))
    assert shown == [str(each.id) for each in result.ids]


def test_kl_and_mismatch(logs, monkeypatch) -> None:
    result = rlaudit.kl(logs / "one")
    at = page(monkeypatch, logs, "kl")
    trends = [result.trends[name].points for name in ("theta_ref_k3", "theta_ref_k1")]
    assert values(at, "KL(theta ‖ ref) over steps") == pytest.approx(
        [point.value.value for points in trends for point in points]
    )
    assert result.start[0].meaning in html(at)
    assert next(each.label for each in at.expander) == "What each estimator means"
    at = page(monkeypatch, logs, "mismatch")
    # Every token of the sampler is 0.01 nats off.
    assert values(at, "Over steps") == pytest.approx([0.01] * 6, rel=1e-3)
    assert "truncates tokens to [0, 2]" in html(at)


def test_a_log_without_log_probs_names_at_once_what_is_missing(tmp_path, monkeypatch) -> None:
    lists = ("logp_theta", "logp_old", "logp_ref", "logp_sampler")
    rows = [{key: value for key, value in row.items() if key not in lists} for row in rollouts(steps=2)]
    write(tmp_path / "one", rows, "grpo")
    for name, column in (("kl", "logp_ref"), ("mismatch", "logp_sampler"), ("clipping", "logp_")):
        at = page(monkeypatch, tmp_path, name)
        (missing,) = [each for each in at.expander if each.label.startswith("Not shown by this log")]
        assert missing.proto.expanded
        assert column in missing.text[0].value
