"""Length bias as a page and as charts: what a log says never acts, and every number is the result's own."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hostile_text import HOSTILE
from synthetic import rollouts, write
from test_report_files import Page

from audit.analyses.length import LengthBias, length_bias
from audit.analyses.length_stops import Reason
from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.report import length_charts
from audit.report.curves_svg import two_curves
from audit.report.length_page import length_html, length_markdown, write_length_report
from audit.report.length_words import alike
from audit.report.text import show_length


@pytest.fixture(scope="module")
def bias(tmp_path_factory) -> LengthBias:
    run = write(tmp_path_factory.mktemp("length") / "run", rollouts(), "grpo")
    return length_bias(RunRows.read(run), *chosen_objective(RunRows.read(run), None))


def hostile_of(bias: LengthBias) -> LengthBias:
    stops = msgspec.structs.replace(bias.stops, reasons=[Reason(HOSTILE, 1.0, 5)])
    return msgspec.structs.replace(
        bias,
        run=HOSTILE,
        objective=HOSTILE,
        correct_is=HOSTILE,
        verdict=HOSTILE,
        doubts=[HOSTILE],
        reason=HOSTILE,
        stops=stops,
        skipped=[Skipped(HOSTILE, HOSTILE)],
    )


def test_the_page_is_self_contained_and_says_what_was_found(bias) -> None:
    html = length_html(bias)
    page = Page(html.replace("<polyline", "<line"))
    assert page.open == []
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object", "form", "a"}
    assert not re.search(r"https?://|url\(|@import", html)
    assert bias.verdict in page.text
    for entry in bias.per_objective:
        assert entry.objective in page.text
    assert all(doubt in page.text for doubt in bias.doubts)
    assert f"{bias.slope.all.n:,}" in page.text


def test_what_a_log_says_never_acts(bias, shown) -> None:
    hostile = hostile_of(bias)
    html, markdown = length_html(hostile), length_markdown(hostile)
    assert "<img" not in html
    assert "\x1b" not in html + markdown
    assert "\u202e" not in html + markdown
    assert "<img" not in markdown.replace("\\<img", "")
    assert "\x1b" not in shown(show_length, hostile, width=200)


def test_a_poor_log_makes_a_page_too(tmp_path) -> None:
    rows = [
        {k: row[k] for k in ("step", "prompt_id", "group_id", "sample_index", "reward", "response")}
        for row in rollouts(steps=3, epochs=1)
    ]
    run = write(tmp_path / "run", rows, "grpo")
    bias = length_bias(RunRows.read(run), *chosen_objective(RunRows.read(run), None))
    assert "cannot tell" in length_html(bias)
    assert "characters" in length_markdown(bias)
    assert length_charts.push_frame(bias).is_empty()
    assert length_charts.drift_frame(bias).is_empty()


def test_the_file_follows_its_ending(bias, tmp_path) -> None:
    for ending in (".html", ".md", ".json"):
        write_length_report(bias, tmp_path / f"report{ending}")
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == bias.verdict
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    with pytest.raises(AuditError, match=r"\.html"):
        write_length_report(bias, tmp_path / "report.pdf")


def test_objectives_that_do_the_same_are_one_row_and_none_is_lost(bias) -> None:
    listed = [name for names, _ in alike(bias.per_objective) for name in names]
    assert sorted(listed) == sorted(e.objective for e in bias.per_objective if not e.skipped)
    together = next(names for names, _ in alike(bias.per_objective) if "grpo" in names)
    assert "gspo" in together
    assert "dr_grpo" not in together


def test_charts_hold_the_numbers_of_the_result(bias) -> None:
    frame = length_charts.push_frame(bias)
    rows = [row for row in frame.iter_rows(named=True) if row["side"] == "wrong"]
    (row,) = [row for row in rows if row["objective"].startswith("grpo +")]
    e = bias.pressure.wrong
    assert (row["value"], row["low"], row["high"], row["n"]) == (e.value, e.low, e.high, e.n)
    curves = length_charts.drift_frame(bias)
    mine = [r["value"] for r in curves.iter_rows(named=True) if (r["side"], r["curve"]) == ("all", "length")]
    assert mine == bias.push_and_drift.all.observed
    for chart in (length_charts.push_chart(bias), length_charts.drift_chart(bias)):
        assert chart.to_dict()["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


def test_curves_keep_their_sign_and_leave_gaps_out() -> None:
    svg = str(two_curves([0.0, 1.0, None, -2.0], [0.0, 0.0, 0.0, 0.0]))
    one, two = re.findall(r'points="([^"]*)"', svg)
    ys = [float(point.split(",")[1]) for point in one.split()]
    assert len(ys) == 3
    assert ys[1] < ys[0] < ys[2]
    assert ys[2] - ys[0] == pytest.approx(2 * (ys[0] - ys[1]), abs=0.2)
    assert {point.split(",")[1] for point in two.split()} == {"35.0"}
