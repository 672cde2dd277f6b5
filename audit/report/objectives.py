"""``rlaudit objectives``: the catalogue, one objective, or several side by side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from audit.objectives.catalogue import CATALOGUE
from audit.objectives.objective import PARTS, Objective, differing_fields
from audit.report import format as fmt
from audit.report.consequences import PARTS as DECIDES
from audit.report.consequences import consequence
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, STRONG, Page, line, styled


def show_catalogue(console: Console | None = None) -> None:
    """Print every algorithm with its formula, paper and lineage."""
    page = Page(console)
    for name, entry in CATALOGUE.items():
        page.say(entry.meaning, indent=11, first=Text(name, STRONG))
        page.say((entry.formula, "cyan"), indent=11)
        page.say((f"{entry.paper}; {entry.lineage}", QUIET), indent=11)
    page.gap()
    page.say(
        ("All fields of one: rlaudit objectives grpo. What differs: rlaudit objectives grpo dr_grpo", QUIET)
    )
    page.print()


def show_objective(objective: Objective, console: Console | None = None) -> None:
    """Print every field of one objective, grouped by part."""
    page = Page(console)
    entry = CATALOGUE.get(objective.name)
    if entry is None:
        page.say((objective.name, STRONG))
    else:
        changed = [field for field, _, _ in differing_fields(entry.objective, objective)]
        page.say((objective.name, STRONG), f"  {entry.meaning}")
        if changed:
            page.say((f"changed from the catalogue: {', '.join(changed)}", "yellow"))
        else:
            page.say((entry.formula, "cyan"))
            page.say((f"{entry.paper}; {entry.lineage}", QUIET))
    page.gap()
    rows = Rows("", "")
    fields = objective.to_dict()
    for part in PARTS:
        settings = ", ".join(f"{field} {fmt.setting(value)}" for field, value in fields[part].items())
        rows.add(styled(part, STRONG), settings, note=DECIDES[part])
    rows.add_to(page)
    page.gap()
    page.say(("With --json: a file that --objective takes.", QUIET))
    page.print()


def show_side_by_side(objectives: Sequence[Objective], console: Console | None = None) -> None:
    """Print only the fields in which objectives differ, each with what the difference does."""
    page = Page(console)
    pairs = itertools.combinations(objectives, 2)
    differing = {field for a, b in pairs for field, _, _ in differing_fields(a, b)}
    fields = sorted(differing, key=lambda field: PARTS.index(field.partition(".")[0]))
    names = [objective.name for objective in objectives]
    if fields:
        rows = Rows("Field", *names)
        for field in fields:
            values = [_value(objective, field) for objective in objectives]
            rows.add(field, *map(fmt.setting, values), note=_consequence(field, values, names))
        rows.add_to(page)
    else:
        page.say(line((", ".join(names), STRONG), ": the same in every field."))
    page.print()


def _consequence(field: str, values: list[object], names: list[str]) -> str:
    if len(values) == 2:
        return consequence(field, values[0], values[1], (names[0], names[1]))
    return consequence(field)


def _value(objective: Objective, field: str) -> object:
    value: object = objective.to_dict()
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
