"""``rlaudit report``: everything about one or several runs in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli.options import place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from audit.logs import Run


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(report)


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            parser=place, metavar="RUN...", help="Run directories, Parquet files, or foreign logs."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="A .html, .md or .json file.")],
    sections: Annotated[
        str,
        typer.Option(
            help="Comma-separated: summary, check, explain (two runs or more), length, groups, prompts, "
            "clipping, kl, mismatch, staleness, rewards; default: all."
        ),
    ] = "",
    hashed: Annotated[
        bool, typer.Option("--hash/--no-hash", help="Read every file in full for its SHA-256.")
    ] = True,
) -> None:
    """Write a report that another person can check: what was found, of which files, by which versions.

    Example: rlaudit report sample_logs/team/grpo-seed1 -o report.html --sections summary,length
    """
    from audit.cli.progress import working
    from audit.importers import open_run
    from audit.logs.output import check_output
    from audit.report.format import visible
    from audit.report.run_report import check_sections, run_report
    from audit.report.run_report_page import ENDINGS, write_run_report

    check_output(out, ENDINGS)
    chosen = check_sections([name.strip() for name in sections.split(",") if name.strip()])
    opened = [open_run(path) for path in runs]
    check_output(out, ENDINGS, (file.path for run in opened for file in run.files))
    with working(f"reporting on {', '.join(run.run_id for run in opened)}"):
        made = run_report(opened, chosen, measure=measured, hashed=hashed)
    write_run_report(made, out)
    typer.echo(f"Report written to {visible(out)}")


def measured(section: str, runs: Sequence[Run]) -> Any:
    """Compute one section of a report.

    Raises
    ------
    AuditError
        The log cannot answer it.
    """
    from audit import api

    if section == "explain":
        return api.explain(*runs) if len(runs) == 2 else api.explain_many(list(runs))
    return getattr(api, {"length": "length_bias"}.get(section, section))(runs[0])
