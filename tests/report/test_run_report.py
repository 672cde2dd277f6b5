"""The report of runs: every section or the reason, the files by their hashes, and no text that acts."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path

import jsonschema
import pytest
from synthetic import rollouts, write

from audit.cli.report import measured
from audit.errors import AuditError, UnknownName
from audit.logs import Run
from audit.report.run_report import SECTIONS, run_report
from audit.report.run_report_page import report_html, report_json, report_markdown, write_run_report
from audit.report.schemas import schema_of

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
