"""``rlaudit explain``: why do runs disagree?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.options import AsJson, emit_json, place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from audit.logs import Run
    from audit.logs.broken import BrokenRun

ENDINGS = (".html", ".md", ".json")


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(explain)


def explain(
    runs: Annotated[
        list[Path],
        typer.Argument(
            parser=place,
            metavar="RUN_A RUN_B [RUN_C ...]",
            help="Run directories, Parquet files, or foreign logs such as TRL's completions/; a directory of "
            "runs stands for all of them; on this machine, or s3://, gs://, az://.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write a report: .html, .md or .json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain why runs disagree: what is declared, what the logs show, and which choice moved how much.

    Of two runs: every cause, ranked. Of three to 50, or a directory: distances
    of every pair, clusters, the fields that split them, and what is beyond seed
    noise.

    Example: rlaudit explain sample_logs/team/grpo-seed1 sample_logs/team/dr-grpo-seed1 -o report.html

    Example: rlaudit explain sample_logs/testbed -o runs.html
    """
    from audit.analyses.given_runs import given_runs
    from audit.logs.output import check_output

    if out is not None:
        check_output(out, ENDINGS)
    opened, left_out = given_runs(runs)
    if out is not None:
        check_output(out, ENDINGS, (file.path for run in opened for file in run.files))
    if len(opened) == 2:
        for broken in left_out:
            typer.echo(f"Left out: {broken.path}: {broken.error}", err=True)
        _two(opened[0], opened[1], out, as_json)
    else:
        _many(opened, left_out, out, as_json)
    if out is not None and not as_json:
        typer.echo(f"Report written to {out}")


def _two(a: Run, b: Run, out: Path | None, as_json: bool) -> None:
    from audit.analyses.explain import explain as explain_runs
    from audit.cli.progress import working

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


def _many(runs: Sequence[Run], left_out: Sequence[BrokenRun], out: Path | None, as_json: bool) -> None:
    from audit.analyses.explain_many import explain_many
    from audit.cli.progress import working

    with working(f"explaining {len(runs)} runs"):
        explanation = explain_many(runs, left_out)
    if out is not None:
        from audit.report.many_page import write_many_report

        write_many_report(explanation, out)
    if as_json:
        emit_json(explanation)
        return
    from audit.report.text import show_many

    show_many(explanation)
