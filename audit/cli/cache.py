"""``rlaudit cache``: what is kept of which log, what of it is out of date, and getting rid of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.options import AsJson, emit_json
from audit.errors import AuditError

if TYPE_CHECKING:
    from audit.facts.store.inventory import CacheReport


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(cache)


def cache(
    path: Annotated[
        str | None,
        typer.Argument(help="A run, or a directory of runs. None: everything in the user's cache directory."),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove facts of files that changed or are gone.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything that is kept.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --clear.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show where facts of runs are stored and how large they are; or remove them. Logs are never touched.

    Facts lie in RUN/.rlaudit, or in the user's cache directory for logs that
    cannot be written to. RLAUDIT_CACHE=run|user|off chooses, RLAUDIT_CACHE_DIR
    and RLAUDIT_CACHE_LIMIT set the user's cache.

    Example: rlaudit cache sample_logs/team
    """
    from audit.facts.store import inventory

    if prune and clear:
        msg = "give --prune or --clear, not both."
        raise AuditError(msg)
    if clear and not yes:
        _ask(inventory.survey(path))
    if prune:
        report = inventory.prune(path, _tell)
    elif clear:
        report = inventory.clear(path, _tell)
    else:
        report = inventory.survey(path)
    if as_json:
        emit_json(report)
    else:
        _show(report, removed=prune or clear)


def _ask(report: CacheReport) -> None:
    """Have the removal confirmed.

    Raises
    ------
    AuditError
        There is nobody to ask.
    """
    if not sys.stdin.isatty():
        msg = "--clear asks before it removes anything, and nobody is there to answer: add --yes."
        raise AuditError(msg)
    question = f"Remove what is kept of {_logs(len(report.logs))} ({megabytes(report.bytes)})?"
    typer.confirm(question, abort=True, err=True)


def _tell(message: str) -> None:
    from audit.report.format import visible

    typer.echo(visible(message), err=True)


def _show(report: CacheReport, *, removed: bool) -> None:
    from audit.report.format import plural, visible

    if removed:
        typer.echo(f"removed {megabytes(report.freed)}")
    for log in report.logs:
        typer.echo(visible(log.log or "(a log that is not named)"))
        typer.echo(f"  {visible(log.folder)}")
        stale = f", {megabytes(log.stale_bytes)} stale" if log.stale_bytes else ""
        held = f"{plural(log.facts, 'fact')} of {plural(log.files, 'file')}"
        typer.echo(f"  {held} in {plural(log.segments, 'segment')}, {megabytes(log.bytes)}{stale}")
    stale = f", {megabytes(report.stale_bytes)} stale" if report.stale_bytes else ""
    typer.echo(
        f"{_logs(len(report.logs))}, {plural(report.segments, 'segment')}, {megabytes(report.bytes)}{stale}\n"
        f"user's cache: {visible(report.user_cache)}, limit {megabytes(report.limit)}"
    )


def _logs(n: int) -> str:
    from audit.report.format import plural

    return plural(n, "log")


def megabytes(size: int) -> str:
    """Return a size as people read it: ``0.4 MB``, ``12 MB``."""
    value = size / 1e6
    return f"{value:,.0f} MB" if value >= 10 or not size else f"{max(value, 0.1):.1f} MB"
