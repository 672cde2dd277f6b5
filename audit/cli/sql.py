"""``rlaudit sql``: one question over the rows of a run, in SQL."""

from __future__ import annotations

import csv
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.options import AsJson, RunPath, emit_json
from audit.errors import AuditError

if TYPE_CHECKING:
    from collections.abc import Callable

    from audit.logs.sql_result import QueryResult

_MOST_ROWS = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(sql)


def sql(
    path: RunPath,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="One SELECT over the tables rollouts and metrics.")
    ],
    *,
    rows: Annotated[int, typer.Option(help="Most rows that are returned.", min=1, max=_MOST_ROWS)] = 1000,
    seconds: Annotated[float, typer.Option(help="Stop the query after this time.", min=0.1)] = 30.0,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, in full.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask a run in SQL (DuckDB): one SELECT, which can read this run and nothing else.

    rollouts: one row per response, the columns of the rollout schema.
    metrics: name, step, update, micro_batch, value, as the trainer logged them.

    Example: rlaudit sql sample_logs/team/grpo-seed1 'select step, avg(reward) from rollouts group by 1'

    Example: rlaudit sql sample_logs/team/grpo-seed1 'select max(length) from rollouts where correct'

    Example: rlaudit sql sample_logs/team/grpo-seed1 'describe rollouts'
    """
    from audit.cli.progress import working
    from audit.importers import open_run
    from audit.logs.sql_process import SPARE, RunningQuery

    if as_csv and as_json:
        msg = "choose one of --csv and --json."
        raise AuditError(msg)
    SPARE.prepare()
    run = open_run(path)
    with working(f"asking {run.run_id}"):
        result = RunningQuery(run, query, rows=rows, seconds=seconds).run()
    if as_json:
        emit_json(result)
    elif as_csv:
        _print_csv(result)
    else:
        from audit.report.text import show_sql

        show_sql(result)
    if result.more and (as_csv or as_json):
        typer.echo(f"rlaudit: first {result.n:,} of more rows; --rows asks for more.", err=True)


def _print_csv(result: QueryResult) -> None:
    from audit.logs.sql_result import cell
    from audit.report.format import visible

    # What acts on a terminal is shown there, and kept as it is in a file.
    shown: Callable[[object], str] = partial(visible, whole=True) if sys.stdout.isatty() else str
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow([shown(column.name) for column in result.columns])
    out.writerows([shown(cell(value)) for value in row] for row in result.rows)
