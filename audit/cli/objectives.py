"""``rlaudit objectives``: the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from audit.cli.options import AsJson, SetOption, emit_json


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(objectives)


def objectives(
    names: Annotated[
        list[str] | None, typer.Argument(help="None: list all. One: show it. Two: what differs.")
    ] = None,
    changes: SetOption = None,
    as_json: AsJson = False,
) -> None:
    """List the algorithms, show one, or show two side by side.

    Example: rlaudit objectives grpo dr_grpo
    """
    from audit.cli.options import load_objective
    from audit.objectives.catalogue import CATALOGUE
    from audit.report.objectives import show_catalogue, show_objective, show_side_by_side

    chosen = [load_objective(name, changes) for name in names or []]
    if as_json:
        listed = chosen or [entry.objective for entry in CATALOGUE.values()]
        dicts = [objective.to_dict() for objective in listed]
        emit_json(dicts[0] if len(dicts) == 1 else dicts)
    elif not chosen:
        show_catalogue()
    elif len(chosen) == 1:
        show_objective(chosen[0])
    else:
        show_side_by_side(chosen)
