"""``rlaudit objectives``: the catalogue, one objective, or several side by side."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from audit.objectives.catalogue import CATALOGUE, FAMILIES, ROWS, Entry
from audit.objectives.needs import needs
from audit.objectives.objective import PARTS, Correction, Objective, differing_fields
from audit.report import format as fmt
from audit.report.consequences import PARTS as DECIDES
from audit.report.consequences import consequence
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, STRONG, Page, line, styled

_SYMBOLS = (
    "Below each: what keeps it stable → what it aims at. r reward, with mean and std of its group; "
    "A advantage; rho = pi_theta / pi_old; |o| = L tokens of a response, N of all, B responses, C a constant."
)
_NAME = max(map(len, CATALOGUE))
_WEIGHT = max(len(entry.weight) for entry in CATALOGUE.values())
_LABEL = max(map(len, (*ROWS, "choices here")))


def show_catalogue(console: Console | None = None, *, wide: bool = False) -> None:
    """Print every algorithm: its weight, its stability and its target, or with ``wide`` all eight rows."""
    page = Page(console)
    for family, entries in FAMILIES.items():
        if page.lines:
            page.gap()
        page.say((family, STRONG))
        if not wide:
            _compact(entries).add_to(page)
        for entry in entries if wide else ():
            page.gap()
            page.say((entry.name, "cyan"), f"  {entry.meaning}")
            _labelled(entry.rows | {"paper": entry.paper}).add_to(page)
    page.gap()
    if not wide:
        page.say((_SYMBOLS, QUIET))
        page.gap()
    page.say(
        ("All of one: rlaudit objectives grpo. What differs: rlaudit objectives grpo dr_grpo. ", QUIET),
        ("" if wide else "All eight rows of each: --wide.", QUIET),
    )
    page.print()


def show_objective(objective: Objective, console: Console | None = None) -> None:
    """Print what the catalogue says of one objective, and every field of it, grouped by part."""
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
            _about(page, entry)
    page.gap()
    _labelled({"needs": needed(needs(objective))}).add_to(page)
    page.gap()
    add_parts(page, objective)
    page.gap()
    page.say(("With --json: a file that --objective takes.", QUIET))
    page.print()


def needed(columns: Mapping[str, str]) -> str:
    """Say which columns of a log an objective needs, and what for."""
    if not columns:
        return "nothing beyond rewards, groups and tokens"
    by_part: dict[str, list[str]] = {}
    for column, part in columns.items():
        by_part.setdefault(part, []).append(column)
    return "; ".join(f"{', '.join(names)} ({part})" for part, names in by_part.items())


def add_parts(page: Page, objective: Objective) -> None:
    """Lay out every field of an objective, grouped by part."""
    rows = Rows("", "")
    fields = objective.to_dict()
    for part in PARTS:
        settings = ", ".join(f"{field} {told(value)}" for field, value in fields[part].items())
        rows.add(styled(part, STRONG), settings, note=DECIDES[part])
    rows.add_to(page)


def told(value: Any) -> str:
    """Return the value of a field in few words: of a correction what it does, not what it leaves alone."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, dict) for item in value):
        return fmt.setting(value)
    return "; ".join(map(_correction, value)) or "none"


def _correction(fields: Mapping[str, Any]) -> str:
    plain = msgspec.to_builtins(Correction())
    rest = {key: value for key, value in fields.items() if value != plain[key] and key not in _NAMED}
    return " ".join([*(fields[key] for key in _NAMED), *([fmt.setting(rest)] if rest else [])])


_NAMED = ("action", "level")


def show_side_by_side(objectives: Sequence[Objective], console: Console | None = None) -> None:
    """Print only the fields in which objectives differ, each with what the difference does."""
    page = Page(console)
    pairs = itertools.combinations(objectives, 2)
    differing = {field for a, b in pairs for field, _, _ in differing_fields(a, b)}
    fields = sorted(differing, key=lambda field: PARTS.index(field.partition(".")[0]))
    names = [objective.name for objective in objectives]
    if fields:
        rows = Rows("Field", *names, whole=(0,))
        for field in fields:
            values = [_value(objective, field) for objective in objectives]
            rows.add(field, *map(told, values), note=_consequence(field, values, names))
        rows.add_to(page)
    else:
        page.say(line((", ".join(names), STRONG), ": the same in every field."))
    page.print()


def _compact(entries: Sequence[Entry]) -> Rows:
    rows = Rows("", "", "")
    for entry in entries:
        # Padded to one width over all families, so that the columns line up down the page.
        name = Text(entry.name.ljust(_NAME), "cyan")
        note = f"{entry.stability} → {entry.target}"
        rows.add(name, entry.weight.ljust(_WEIGHT), styled(entry.source, QUIET), note=note)
    return rows


def _about(page: Page, entry: Entry) -> None:
    page.say((entry.formula, "cyan"))
    page.say((entry.paper, QUIET))
    page.gap()
    _labelled({"fixes": entry.fixes} | entry.rows).add_to(page)
    if entry.choices:
        page.gap()
        _labelled({"choices here": entry.choices}).add_to(page)


def _labelled(pairs: Mapping[str, str]) -> Rows:
    rows = Rows("", "")
    for label, text in pairs.items():
        rows.add(styled(label, QUIET) + Text(" " * (_LABEL - len(label))), text)
    return rows


def _consequence(field: str, values: list[object], names: list[str]) -> str:
    if len(values) == 2:
        return consequence(field, values[0], values[1], (names[0], names[1]))
    return consequence(field)


def _value(objective: Objective, field: str) -> object:
    value: object = objective.to_dict()
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
