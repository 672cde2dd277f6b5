"""What the verbs that break one run down share: open it, measure, draw, print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from audit.cli.options import emit_json, own_or_asked

if TYPE_CHECKING:
    from audit.facts.rows import RunRows
    from audit.objectives.objective import Objective

T = TypeVar("T")

CHARTS = (".svg", ".png", ".html", ".json")
ChartFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Also draw it: .svg, .png, .html, or .json (the Vega-Lite chart)."),
]


def measured(
    path: Path,
    out: Path | None,
    doing: str,
    measure: Callable[[RunRows, Objective | None, list[str]], T],
    *,
    objective: str | None = None,
    changes: list[str] | None = None,
) -> T:
    """Measure a run under its own objective or the one asked for, and say meanwhile what is being done.

    Raises
    ------
    AuditError
        The run cannot be read, or a chart cannot be written to ``out``: said before any work is done.
    """
    from audit.cli.progress import working
    from audit.facts.rows import RunRows
    from audit.importers import open_run
    from audit.logs.output import check_output

    run = open_run(path)
    if out is not None:
        check_output(out, CHARTS, (file.path for file in run.files))
    with working(f"{doing} {run.run_id}"):
        rows = RunRows.read(run)
        return measure(rows, *own_or_asked(rows, objective, changes))


def present(result: Any, out: Path | None, show: Callable[[Any], None], *, as_json: bool) -> None:
    """Draw the result where a file was asked for, and print it."""
    if out is not None:
        from audit.report.breakdown_charts import chart_of_breakdown
        from audit.report.charts import save_chart

        save_chart(chart_of_breakdown(result), out)
    if as_json:
        emit_json(result)
        return
    show(result)
    if out is not None:
        typer.echo(f"Chart written to {out}")
