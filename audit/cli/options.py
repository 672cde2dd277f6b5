"""Arguments and output that the verbs share."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli.fail import fail
from audit.errors import AuditError, BadObjective

if TYPE_CHECKING:
    from audit.facts.rows import RunRows
    from audit.objectives.objective import Objective


def place(text: str) -> Path:
    """Read an argument that is a local path or an address in object storage, of which a Path cuts a slash."""
    from audit.logs.places import to_place

    try:
        return to_place(text)
    except AuditError as error:
        # Raised from here it would become a usage message of several lines.
        fail(str(error))


RunPath = Annotated[
    Path,
    typer.Argument(
        parser=place,
        help="A run directory, one Parquet file, or a foreign log such as TRL's completions/; "
        "on this machine, or s3://, gs://, az://.",
    ),
]
DirectoryPath = Annotated[Path, typer.Argument(parser=place, help="The directory that holds the runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON by the documented contract.")]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        "--objective", help="A catalogue name or a JSON file of fields; default: the run's own objective."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Change one field, as in --set aggregation.constant=512."
    ),
]


class Severity(enum.StrEnum):
    """Severities that --fail-on takes, mildest first."""

    info = "info"
    warning = "warning"
    error = "error"


def emit_json(value: Any) -> None:
    """Print a result; NaN and infinity become null."""
    from audit.report.as_json import as_json

    typer.echo(as_json(value), nl=False)


def load_objective(text: str, changes: list[str] | None = None) -> Objective:
    """Read ``--objective`` and apply ``--set``.

    Raises
    ------
    UnknownName, BadObjective
    """
    from audit.facts.declared import read_objective

    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        if path.exists() and not path.is_file():
            msg = f"{path}: is not a regular file."
            raise BadObjective(msg)
        try:
            declaration = json.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            msg = f"{path}: not a readable objective file: {error}."
            raise BadObjective(msg) from None
        if not isinstance(declaration, (str, dict)):
            msg = f"{path}: an objective file holds an object of fields, or a catalogue name."
            raise BadObjective(msg)
        try:
            objective = read_objective(declaration)
        except AuditError as error:
            msg = f"{path}: {error}"
            raise BadObjective(msg) from None
    else:
        objective = read_objective(text)
    return change_objective(objective, changes)


def change_objective(objective: Objective, changes: list[str] | None) -> Objective:
    """Apply ``FIELD=VALUE`` changes; values are JSON, anything else is text.

    Raises
    ------
    BadObjective
        A change is not of that form, or names no field, or its value does not fit.
    """
    from audit.objectives.changes import changed
    from audit.objectives.objective import from_dict

    fields = changed(objective.to_dict(), changes or [])
    return from_dict(fields, where=f"--set {' '.join(changes)}" if changes else "objective")


def objective_for(rows: RunRows, text: str | None, changes: list[str] | None) -> tuple[Objective, list[str]]:
    """The objective that ``--objective`` and ``--set`` ask for, or the run's own; and what was assumed.

    Raises
    ------
    BadObjective
        None was asked for and run.json declares none.
    """
    from audit.facts.chosen import chosen_objective

    if text is None and changes:
        own, _ = chosen_objective(rows, None)
        return chosen_objective(rows, change_objective(own, changes))
    return chosen_objective(rows, None if text is None else load_objective(text, changes))


def own_or_asked(
    rows: RunRows, text: str | None, changes: list[str] | None
) -> tuple[Objective | None, list[str]]:
    """The objective asked for, else the run's own; None, with the reason, where the run declares none.

    Raises
    ------
    UnknownName, BadObjective
        What was asked for is none.
    """
    if text is not None or changes:
        return objective_for(rows, text, changes)
    from audit.analyses.fitted import own_objective

    return own_objective(rows)
