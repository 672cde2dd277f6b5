"""``rlaudit explain``: why do two runs disagree?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli.options import AsJson, RunPath, emit_json

ENDINGS = (".html", ".md", ".json")


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(explain)


def explain(
    run_a: RunPath,
    run_b: RunPath,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write a report: .html, .md or .json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain why two runs disagree: what is declared, what the logs show, and which choice moved how much.

    Example: rlaudit explain sample_logs/team/grpo-seed1 sample_logs/team/dr-grpo-seed1 -o report.html
    """
    from audit.analyses.explain import explain as explain_runs
    from audit.cli.progress import working
    from audit.importers import open_run
    from audit.logs.output import check_output

    if out is not None:
        check_output(out, ENDINGS)
    a, b = open_run(run_a), open_run(run_b)
    if out is not None:
        check_output(out, ENDINGS, (file.path for run in (a, b) for file in run.files))
    with working(f"explaining {a.run_id} against {b.run_id}"):
        explanation = explain_runs(a, b)
    if out is not None:
        from audit.report.files import write_report

        write_report(explanation, out)
    if as_json:
        emit_json(explanation)
        return
    from audit.report.text import show_explanation

    show_explanation(explanation)
    if out is not None:
        typer.echo(f"Report written to {out}")
