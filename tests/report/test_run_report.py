"""The report of runs: every section or the reason, the files by their hashes, and no text that acts."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest
from synthetic import rollouts, write

from audit.cli.report import measured
from audit.errors import AuditError, UnknownName
from audit.logs import Run
from audit.report.colours import PALETTE
from audit.report.run_report import SECTIONS, run_report
from audit.report.run_report_page import _lines, report_html, report_json, report_markdown, write_run_report
from audit.report.schemas import schema_of
from audit.report.section_panels import panels_of
from audit.report.terminal_lines import SLIM, WIDTH, as_plain

HOSTILE = "<img src=x onerror=alert(1)> **b** `c` \x1b[2J"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    root = tmp_path_factory.mktemp("logs")
    return [
        write(root / "one", rollouts(steps=4), "grpo", run_id=HOSTILE),
        write(root / "two", rollouts(steps=4, seed=1), "dr_grpo"),
    ]


def test_every_section_is_there_or_says_why_not(runs) -> None:
    report = run_report(runs[1:], measure=measured)
    assert [section.section for section in report.sections] == [
        name for name in SECTIONS if name != "explain"
    ]
    for section in report.sections:
        assert (section.result is None) is (section.failed is not None)
    page = report_html(report)
    for section in report.sections:
        assert section.title in page
        if section.failed:
            assert "This log cannot answer that" in page


def test_two_runs_are_explained_and_each_is_measured(runs) -> None:
    report = run_report(runs, ["summary", "explain"], measure=measured)
    assert [(s.section, len(s.runs)) for s in report.sections] == [
        ("explain", 2),
        ("summary", 1),
        ("summary", 1),
    ]
    said = report.sections[0].result.verdict.text
    words = report_markdown(report).split("```")[1].split()
    assert " ".join(words[1 : 1 + len(said.split())]) == " ".join(said.split())


def test_files_are_named_by_what_they_hold(runs) -> None:
    report = run_report(runs, ["summary"], measure=measured)
    for mark, run in zip(report.runs, runs, strict=True):
        assert {file.path for file in mark.files} == {"run.json", *(file.name for file in run.files)}
        for file in mark.files:
            path = run.path / file.path
            assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
            assert file.size == path.stat().st_size
            written = datetime.datetime.fromisoformat(file.mtime).timestamp()
            assert written == pytest.approx(path.stat().st_mtime, abs=1e-3)
        for page in (report_html(report), report_markdown(report), report_json(report)):
            assert all(file.sha256 in page for file in mark.files)
    assert all(
        file.sha256 is None
        for mark in run_report(runs, ["summary"], hashed=False, measure=measured).runs
        for file in mark.files
    )
    assert {"python", "torch", "rlaudit", "schema"} <= report.versions.keys()


def test_a_file_that_was_written_to_meanwhile_is_said(tmp_path) -> None:
    run = write(tmp_path / "one", rollouts(steps=2))
    with run.files[0].path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(AuditError, match="changed while it was read"):
        run_report([run], ["summary"], measure=lambda section, of: "not asked")


@pytest.mark.parametrize("name", ["rollouts/part-000000.parquet", "run.json"])
@pytest.mark.parametrize("before", [True, False])
def test_a_file_that_vanished_meanwhile_is_said(tmp_path, name, before) -> None:
    run = write(tmp_path / "one", rollouts(steps=2), "grpo")

    def measure(section: str, of: list[Run]) -> object:
        if before:
            (run.path / name).unlink()
        result = measured(section, of)
        (run.path / name).unlink(missing_ok=True)
        return result

    with pytest.raises(AuditError, match=f"{re.escape(name)}: No such file.*run the report again"):
        run_report([run], ["clipping"], measure=measure)


def test_results_that_are_known_are_taken_as_they_are(runs) -> None:
    asked = []

    def measure(section: str, of: list[Run]) -> object:
        asked.append((section, len(of)))
        return measured(section, of) if section == "summary" else "not today"

    report = run_report(runs[1:], ["summary", "length"], measure=measure)
    assert asked == [("summary", 1), ("length", 1)]
    assert report.sections[1].failed == "not today"
    assert "not today" in report_markdown(report)


def test_text_of_a_log_does_not_act(runs) -> None:
    report = run_report(runs[:1], ["summary", "check"], measure=measured)
    page = report_html(report)
    assert "<img" not in page
    assert "&lt;img src=x" in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    text = report_markdown(report)
    assert "\x1b" not in page + text + report_json(report)
    fenced = [part for at, part in enumerate(text.split("```")) if at % 2]
    outside = [part for at, part in enumerate(text.split("```")) if not at % 2]
    assert fenced
    assert not any("<img" in part.replace("\\<img", "") for part in outside)


def test_json_is_the_whole_report_by_its_schema(runs, tmp_path) -> None:
    report = run_report(runs[1:], ["summary"], measure=measured)
    for name in ("r.json", "r.html", "r.md"):
        write_run_report(report, tmp_path / name)
    told = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    jsonschema.validate(told, schema_of("report"))
    assert told["sections"][0]["result"]["schema"] == "rlaudit.summary.v1"
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == report_html(report)


def test_unknown_sections_and_no_runs_are_refused(runs) -> None:
    with pytest.raises(UnknownName, match="summary"):
        run_report(runs, ["sumary"], measure=measured)
    with pytest.raises(AuditError, match="at least one run"):
        run_report([], measure=measured)


def test_the_verb_writes_it_outside_of_the_log(runs, tmp_path, capsys) -> None:
    from audit.cli import main

    with pytest.raises(SystemExit) as ended:
        main(
            ["report", str(runs[1].path), "-o", str(tmp_path / "r.md"), "--sections", "summary", "--no-hash"]
        )
    assert ended.value.code == 0
    assert "not read" in (tmp_path / "r.md").read_text(encoding="utf-8")
    inside = Path(runs[1].path) / "r.md"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(runs[1].path), "-o", str(inside)])
    assert ended.value.code == 2
    assert not inside.exists()
    assert "never changed" in capsys.readouterr().err


@pytest.fixture(scope="module")
def page(runs) -> str:
    return report_html(run_report(runs, measure=measured))


def test_sections_are_drawn_by_what_they_measure(page) -> None:
    held = re.findall(r'<section aria-labelledby="s\d+">\n<h2[^>]*>([^<]*)(.*?)</section>', page, re.S)
    drawn: dict[str, int] = {}
    for title, body in held:
        drawn[title.strip()] = drawn.get(title.strip(), 0) + body.count("<svg")
    assert {SECTIONS[name] for name in ("explain", "length", "groups", "prompts", "clipping", "kl")} <= {
        title for title, count in drawn.items() if count
    }
    assert not drawn[SECTIONS["check"]]
    titles = re.findall(r"<figcaption>(.*?)(?: <span|</figcaption>)", page)
    assert {"What turns the weights", "Observed length", "Push of every objective on the same rollouts"} <= {
        *titles
    }


def test_charts_have_the_ink_of_the_page_and_one_label_each(page) -> None:
    charts = re.findall(r"<svg .*?</svg>", page, re.S)
    assert charts
    for chart in charts:
        assert 'stroke="currentColor"' in chart or 'fill="currentColor"' in chart
        assert not re.search(r'fill="(black|white|#000|#fff)', chart)
        assert chart.count("aria-label=") == 1
        assert "<style" not in chart
        assert "href" not in chart
        assert not re.search(r'(?:d|transform)="[^"]*\.\d{3}', chart)


def test_a_phone_and_a_page_get_the_same_words(runs) -> None:
    section = run_report(runs[1:], ["clipping"], measure=measured).sections[0]
    full, slim = (_lines(section, width) for width in (WIDTH, SLIM))
    assert max(len(line) for line in as_plain(slim).splitlines()) < 64
    # Words that are too long for a column are broken.
    assert sorted("".join(as_plain(full).split())) == sorted("".join(as_plain(slim).split()))


def test_without_the_package_that_draws_the_page_says_so(runs, monkeypatch) -> None:
    report = run_report(runs[1:], ["length"], measure=measured)
    monkeypatch.setattr("audit.report.run_report_page.can_draw", lambda: False)
    page = report_html(report)
    assert "<svg" not in page
    assert "vl-convert-python" in page


def test_two_runs_of_one_name_are_told_apart(tmp_path) -> None:
    pair = [
        write(tmp_path / name, rollouts(steps=12, seed=seed), "grpo", run_id="same")
        for seed, name in enumerate("ab")
    ]
    report = run_report(pair, ["explain", "length"], measure=measured)
    course = report.sections[0].result.timeline.courses[0]
    parted = msgspec.structs.replace(course, parted=len(course.moments) - 1)
    timeline = msgspec.structs.replace(report.sections[0].result.timeline, courses=[parted])
    panels = panels_of(msgspec.structs.replace(report.sections[0].result, timeline=timeline), PALETTE[:2])
    assert panels[-1].legend == {"A same": PALETTE[0], "B same": PALETTE[1]}
    colours = json.dumps(panels[-1].draw().to_dict())
    assert PALETTE[0] in colours
    assert PALETTE[1] in colours
    assert report_html(report).count("<h2") == 4
