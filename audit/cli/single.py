"""Verbs about one run, or the runs of a directory: ``summary``, ``check``, ``length``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli.options import AsJson, ObjectiveOption, RunPath, SetOption, Severity, emit_json, own_or_asked


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(summary)
    app.command()(check)
    app.command()(length)


def summary(path: RunPath, as_json: AsJson = False) -> None:
    """Say what a run, or every run under a directory, holds: responses, groups, steps, tier, reward, length.

    Example: rlaudit summary sample_logs/team
    """
    from audit.analyses.directory import summarise_path
    from audit.cli.progress import working

    with working(f"reading {path}"):
        result = summarise_path(path)
    if as_json:
        emit_json(result)
        return
    from audit.report.text import show_summary

    show_summary(result)


def check(
    path: RunPath,
    fail_on: Annotated[
        Severity | None,
        typer.Option("--fail-on", help="Exit with code 1 if a problem is at least this severe."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a log is valid, and whether the run did what it declares.

    Example: rlaudit check sample_logs/team/grpo-seed1 --fail-on error
    """
    from audit.analyses.check import check as check_run
    from audit.cli.progress import working
    from audit.importers import open_run

    run = open_run(path)
    with working(f"checking {run.run_id}"):
        result = check_run(run)
    if as_json:
        emit_json(result)
    else:
        from audit.report.text import show_check

        show_check(result)
    order = [severity.value for severity in Severity]
    if fail_on and any(order.index(p.severity) >= order.index(fail_on.value) for p in result.problems):
        raise typer.Exit(1)


def length(
    path: RunPath,
    objective: ObjectiveOption = None,
    changes: SetOption = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write a report: .html, .md or .json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check length bias: how weight depends on length, what it pushes for, and how lengths moved.

    Example: rlaudit length sample_logs/team/grpo-seed1
    """
    from audit.analyses.length import length_bias
    from audit.analyses.own_length import own_length_bias
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.importers import open_run
    from audit.logs.output import check_output

    run = open_run(path)
    if out is not None:
        check_output(out, (".html", ".md", ".json"), (file.path for file in run.files))
    with working(f"measuring {run.run_id}"):
        if objective is None and not changes:
            result = own_length_bias(run)
        else:
            rows = RunRows.read(run)
            result = length_bias(rows, *own_or_asked(rows, objective, changes))
    if out is not None:
        from audit.report.length_page import write_length_report

        write_length_report(result, out)
    if as_json:
        emit_json(result)
        return
    from audit.report.text import show_length

    show_length(result)
    if out is not None:
        typer.echo(f"Report written to {out}")
