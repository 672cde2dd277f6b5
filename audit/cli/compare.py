"""``rlaudit explain``: why do two runs disagree?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli.options import AsJson, RunPath, emit_json, require_place
from audit.errors import AuditError


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

    if out is not None:
        if out.suffix.lower() not in (".html", ".md", ".json"):
            msg = f"{out}: a report ends in .html, .md or .json."
            raise AuditError(msg)
        require_place(out)
    a, b = open_run(run_a), open_run(run_b)
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
