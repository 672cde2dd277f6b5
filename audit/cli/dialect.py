"""``rlaudit dialect``: what a framework's config and version declare, and what an upgrade changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from audit.cli.options import AsJson, emit_json
from audit.errors import AuditError, BadObjective


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(dialect)


def dialect(
    name: Annotated[
        str | None, typer.Argument(help="A framework, such as trl or verl. None: list all.")
    ] = None,
    *,
    version: Annotated[
        str | None, typer.Option("--version", metavar="V", help="The version that ran.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--from", metavar="V1", help="With --to: what an upgrade changes.")
    ] = None,
    after: Annotated[str | None, typer.Option("--to", metavar="V2", help="The version upgraded to.")] = None,
    trainer: Annotated[
        str | None, typer.Option("--trainer", metavar="T", help="The trainer class, such as RLOOTrainer.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE.json", help="The framework's config, or a run.json that holds it."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the objective that a config declares in one version, or what another version makes of it.

    Example: rlaudit dialect trl --from 0.15.2 --to 1.16.0
    """
    from audit.report import dialect as report

    if name is None:
        report.show_dialects() if not as_json else emit_json(report.dialects())
        return
    settings, recorded = _read(config, name)
    trainer = trainer or recorded
    if version is not None and before is None and after is None:
        declaration = report.declaration(name, version, settings, trainer)
        emit_json(declaration) if as_json else report.show_declaration(declaration)
    elif before is not None and after is not None and version is None:
        upgrade = report.upgrade(name, before, after, settings, trainer)
        emit_json(upgrade) if as_json else report.show_upgrade(upgrade)
    else:
        msg = f"{name}: give --version V, or --from V1 and --to V2. Read: {report.range_of(name)}."
        raise AuditError(msg)


def _read(path: Path | None, name: str) -> tuple[dict[str, Any], str | None]:
    """Config in a JSON file, and the trainer that a run.json names.

    Raises
    ------
    BadObjective
        The file holds no config, or that of another framework than ``name``.
    UnknownName
    """
    from audit.objectives.dialects import DIALECTS, same_framework

    if path is None:
        return {}, None
    if path.exists() and not path.is_file():
        msg = f"{path}: is not a regular file."
        raise BadObjective(msg)
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path}: not a readable config: {error}."
        raise BadObjective(msg) from None
    if not isinstance(found, dict):
        msg = f"{path}: a config is an object of options."
        raise BadObjective(msg)
    if isinstance(found.get("config"), dict) and isinstance(found.get("framework"), dict):
        recorded = found["framework"].get("name")
        if isinstance(recorded, str) and not same_framework(name, recorded):
            known = (
                f"rlaudit dialect {recorded.lower()} reads it"
                if recorded.lower() in DIALECTS
                else "it has no dialect"
            )
            msg = f"{path}: the run of another framework, {recorded!r}, not of {name}: {known}."
            raise BadObjective(msg)
        trainer = found["framework"].get("trainer")
        return found["config"], trainer if isinstance(trainer, str) else None
    return found, None
