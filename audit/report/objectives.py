"""``rlaudit objectives``: the catalogue, one objective, or several side by side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from audit.objectives.catalogue import CATALOGUE
from audit.objectives.objective import PARTS, Objective, differing_fields
from audit.report import format as fmt
from audit.report.consequences import PARTS as MEANING
from audit.report.consequences import consequence
from audit.report.text.shared import QUIET, STRONG, Rows, bullet, line, to_stdout


def show_catalogue(console: Console | None = None) -> None:
    """Print every algorithm with its formula, paper and lineage."""
    console = console or to_stdout()
    for name, entry in CATALOGUE.items():
        console.print(line((name, STRONG), f"  {entry.meaning}"))
        for label, value in (("", entry.formula), ("paper ", entry.paper), ("from ", entry.lineage)):
            bullet(console, (f"{label}{value}", "" if not label else QUIET), mark=" ", indent=2)
    console.print()
    console.print(line(("Two side by side: rlaudit objectives grpo dr_grpo", QUIET)))


def show_objective(objective: Objective, console: Console | None = None) -> None:
    """Print every field of one objective, grouped by part."""
    console = console or to_stdout()
    entry = CATALOGUE.get(objective.name)
    console.print(line((objective.name, STRONG)))
    if entry is not None and entry.objective == objective:
        console.print(line(entry.meaning))
        for label, value in (("weight", entry.formula), ("paper", entry.paper), ("lineage", entry.lineage)):
            bullet(console, (f"{label}: ", QUIET), value, mark=" ", indent=1)
    console.print()
    rows = Rows("", "", indent=0)
    fields = objective.to_dict()
    for part in PARTS:
        settings = ", ".join(f"{field} {fmt.setting(value)}" for field, value in fields[part].items())
        rows.add(Text(part, style=STRONG), settings, note=MEANING[part])
    rows.print(console)
    console.print()
    console.print(
        line(
            (f"As JSON, to change and pass to --objective: rlaudit objectives {objective.name} --json", QUIET)
        )
    )


def show_side_by_side(objectives: Sequence[Objective], console: Console | None = None) -> None:
    """Print only the fields in which objectives differ, each with what the difference does."""
    console = console or to_stdout()
    pairs = itertools.combinations(objectives, 2)
    fields = list(dict.fromkeys(field for a, b in pairs for field, _, _ in differing_fields(a, b)))
    names = [objective.name for objective in objectives]
    if not fields:
        console.print(line((" and ".join(names), STRONG), ": the same in every field."))
        return
    rows = Rows("field", *names, indent=0)
    for field in fields:
        values = [_value(objective, field) for objective in objectives]
        rows.add(Text(field, style=STRONG), *map(fmt.setting, values), note=consequence(field))
    rows.print(console)


def _value(objective: Objective, field: str) -> object:
    value: object = objective.to_dict()
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
