"""Terminal output: one screen, plain where piped, and safe against what a log holds."""

from __future__ import annotations

import msgspec
import pytest
from hostile_text import HOSTILE
from synthetic import rollouts, write

from audit.analyses.check import check
from audit.analyses.directory import summarise_path
from audit.analyses.explain import explain
from audit.analyses.length import length_bias
from audit.analyses.skipped import Skipped
from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.logs.broken import BrokenRun
from audit.report.text import show_check, show_explanation, show_length, show_summary
from audit.schema import Problem


def test_explain_leads_with_the_verdict_and_fits_one_screen(explanation, shown) -> None:
    said = shown(show_explanation, explanation, terminal=True)
    lines = said.splitlines()
    assert len(lines) < 40
    assert explanation.verdict.text.split(";")[0] in lines[0]
    for section in ("Causes", "Declared", "Logged advantages", "Objective effect", "Outcomes", "Skipped"):
        assert section in said


def test_explain_gives_every_share_its_interval_n_and_confidence(explanation, shown) -> None:
    said = shown(show_explanation, explanation)
    for cause in explanation.verdict.causes:
        (line,) = [line for line in said.splitlines() if line.strip().startswith(cause.id)]
        assert "] %" in line
        assert f"{cause.evidence['responses']:,}" in line
        assert f"{cause.confidence:.2f}" in line


@pytest.mark.parametrize("width", [80, 100, 200])
def test_piped_output_is_plain_and_within_its_width(explanation, shown, width) -> None:
    said = shown(show_explanation, explanation, width=width)
    assert "\x1b" not in said
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= width
    assert all(line == line.rstrip() for line in said.splitlines())


def test_many_differences_still_fit_one_screen(explanation, shown) -> None:
    replace = msgspec.structs.replace
    causes = explanation.verdict.causes * 3
    many = replace(
        explanation,
        verdict=replace(explanation.verdict, causes=causes),
        declared=replace(explanation.declared, differs=explanation.declared.differs * 5, notes=["note"] * 9),
        skipped=[Skipped(f"check {i}", "column") for i in range(20)],
    )
    screen = shown(show_explanation, many, terminal=True)
    assert len(screen.splitlines()) < 40
    assert all(
        section in screen for section in ("Causes", "Declared", "Outcomes", "Skipped", "-o report.html")
    )
    assert shown(show_explanation, many).count("objective.aggregation") == 3


def test_one_seed_a_side_is_preliminary_and_gaps_are_not_called_noise(explanation, shown) -> None:
    bare = msgspec.structs.replace(explanation.verdict, text="Nothing.", causes=[])
    said = shown(
        show_explanation, msgspec.structs.replace(explanation, verdict=bare, skipped=[Skipped("a", "b")])
    )
    assert said.startswith("Nothing. (preliminary: one seed a side; not everything could be compared")


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_log_says_is_shown_and_never_acts(hostile, shown, terminal) -> None:
    said = shown(show_explanation, hostile, terminal=terminal, width=300)
    assert "[red]x[/] \\x1b[2J <img src=x onerror=alert(1)>" in said
    assert "\x1b[2J" not in said
    assert "\u202e" not in said


def test_a_hostile_run_id_survives_every_verb(tmp_path, shown) -> None:
    run = write(tmp_path / "run", rollouts(steps=4), "grpo", run_id=HOSTILE)
    rows = RunRows.read(run)
    for show, result in (
        (show_summary, summarise_path(tmp_path / "run")),
        (show_check, check(run)),
        (show_length, length_bias(rows, *chosen_objective(rows, None))),
        (show_explanation, explain(run, run)),
    ):
        said = shown(show, result, width=200)
        assert "[red]x[/] \\x1b[2J" in said
        assert "\x1b" not in said


def test_summary_of_one_run_gives_every_mean_its_n(tmp_path, shown) -> None:
    summary = summarise_path(write(tmp_path / "one", rollouts(), "grpo").path)
    said = shown(show_summary, summary)
    for name in ("reward", "length", "zero-signal", "truncated"):
        (line,) = [line for line in said.splitlines() if line.strip().startswith(name)]
        assert "[" in line
        assert "n = " in line


def test_summary_of_a_directory_lists_runs_and_what_cannot_be_read(tmp_path, shown) -> None:
    write(tmp_path / "one", rollouts(steps=4), "grpo")
    write(tmp_path / "two", [{k: v for k, v in row.items() if k != "logp_ref"} for row in rollouts(steps=4)])
    summary = summarise_path(tmp_path)
    broken = msgspec.structs.replace(summary, broken=[BrokenRun(f"runs/{HOSTILE}", "not a readable file")])
    said = shown(show_summary, broken, width=80)
    assert "1 run cannot be read" in said
    assert "none declared" in said
    assert "KL to the reference: needs logp_ref, in 1 of 2 runs" in said
    assert "\\x1b[2J" in said
    assert max(map(len, said.splitlines())) <= 80


def test_check_lists_problems_worst_first_and_says_what_it_looked_at(tmp_path, shown) -> None:
    result = check(write(tmp_path / "run", rollouts(steps=4), "grpo"))
    sound = shown(show_check, msgspec.structs.replace(result, problems=[]))
    assert "No problems found." in sound
    assert "checked: files" in sound
    problems = [
        Problem(
            id="a.b", severity="error", summary="Wrong.", column="reward", rows=3, steps=(1, 2), hint="Do."
        ),
        Problem(id="c.d", severity="info", summary="Odd.", certainty="likely"),
    ]
    said = shown(show_check, msgspec.structs.replace(result, problems=problems))
    assert "1 error, 1 remark" in said
    assert "a.b  column reward, 3 responses, steps 1, 2" in said
    assert "→ Do." in said
    assert "c.d  likely" in said


def test_length_marks_the_run_s_own_objective_and_shows_cancelled_sums_as_zero(tmp_path, shown) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(), "grpo"))
    said = shown(show_length, length_bias(rows, *chosen_objective(rows, None)), width=80)
    assert "grpo *" in said
    assert "e-1" not in said.split("Push under")[1]
    assert "remax: the greedy baseline" in said
    assert max(map(len, said.splitlines())) <= 80
