"""``rlaudit dialect``: frameworks, the objective of one config, and what an upgrade changes silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console

from audit.objectives.dialects import DIALECTS, defaults, from_framework, refused_defaults, versions_read
from audit.objectives.objective import Objective, differing_fields, from_dict
from audit.report import format as fmt
from audit.report.consequences import consequence
from audit.report.objectives import add_parts, show_side_by_side
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, QUIET, STRONG, Page


@dataclass(frozen=True)
class Framework:
    """One framework whose configs can be read."""

    name: str
    oldest: str
    newest: str
    """Versions read."""


@dataclass(frozen=True)
class Declaration:
    """What a config declares in one version."""

    framework: str
    version: str
    objective: dict[str, Any]
    unknown: list[str]
    notes: list[str]


@dataclass(frozen=True)
class Change:
    """A field of the objective that differs between two versions."""

    field: str
    before: Any
    after: Any
    consequence: str


@dataclass(frozen=True)
class Default:
    """A key that the config leaves open and whose default differs."""

    key: str
    status: Literal["changed", "new", "gone"]
    """``new``, ``gone``: one of the versions has no such option."""
    before: Any
    after: Any


@dataclass(frozen=True)
class Upgrade:
    """What another version makes of the same config."""

    before: Declaration
    after: Declaration
    differs: list[Change]
    defaults: list[Default]


def dialects() -> list[Framework]:
    """Return the frameworks, by name."""
    return [Framework(name, *versions_read(name)) for name in sorted(DIALECTS)]


def range_of(name: str) -> str:
    """Return the versions read, in words.

    Raises
    ------
    UnknownName
    """
    return _range(*versions_read(name))


def declaration(name: str, version: str, config: Mapping[str, Any], trainer: str | None) -> Declaration:
    """Read a config as one version would.

    Raises
    ------
    UnknownName, BadObjective
    """
    made = from_framework(name, version, config, trainer=trainer)
    return Declaration(name.lower(), version, made.objective.to_dict(), list(made.unknown), list(made.notes))


def upgrade(name: str, before: str, after: str, config: Mapping[str, Any], trainer: str | None) -> Upgrade:
    """Read a config as two versions would, and compare.

    A default that no objective expresses is left out of its side, with a note; a value of the config is not.

    Raises
    ------
    UnknownName, BadObjective
    """
    a, b = (_without_refused_defaults(name, version, config, trainer) for version in (before, after))
    names = (before, after)
    fields = differing_fields(_objective(a), _objective(b))
    differs = [Change(field, x, y, consequence(field, x, y, names)) for field, x, y in fields]
    return Upgrade(a, b, differs, _changed_defaults(name.lower(), before, after, config, trainer))


def _without_refused_defaults(
    name: str, version: str, config: Mapping[str, Any], trainer: str | None
) -> Declaration:
    refused = refused_defaults(name, version, config, trainer=trainer)
    made = declaration(name, version, {**config, **{key: off for key, (_, off) in refused.items()}}, trainer)
    made.notes[:0] = [
        f"{key} is {fmt.setting(default)} by default in {made.framework} {version}. An objective cannot "
        f"express it: it is left out here, as if it were {fmt.setting(off)}."
        for key, (default, off) in refused.items()
    ]
    return made


def show_dialects(console: Console | None = None) -> None:
    """Print every framework with the versions read."""
    page = Page(console)
    rows = Rows("Framework", "versions read")
    for framework in dialects():
        rows.add(framework.name, _range(framework.oldest, framework.newest))
    rows.add_to(page)
    page.gap()
    page.say(
        ("The objective of a config: rlaudit dialect trl --version 1.16.0 --config config.json. ", QUIET),
        ("What an upgrade changes: rlaudit dialect trl --from 0.15.2 --to 1.16.0", QUIET),
    )
    page.print()


def show_declaration(found: Declaration, console: Console | None = None) -> None:
    """Print the objective of a config, and what to know before relying on it."""
    page = Page(console)
    objective = _objective(found)
    page.say((objective.name, STRONG), f"  {found.framework} {found.version}")
    page.gap()
    add_parts(page, objective)
    _add_notes(page, "Notes", found.notes)
    _add_unknown(page, found.unknown)
    page.print()


def show_upgrade(found: Upgrade, console: Console | None = None) -> None:
    """Print the fields in which two versions differ, with what each does, and the defaults behind them."""
    sides = [
        _objective(side).replace(name=f"{side.framework} {side.version}")
        for side in (found.before, found.after)
    ]
    show_side_by_side(sides, console)
    page = Page(console)
    _add_defaults(page, found)
    shared = [note for note in found.before.notes if note in found.after.notes]
    _add_notes(page, "Notes", shared)
    for side in (found.before, found.after):
        _add_notes(page, f"Notes on {side.version}", [note for note in side.notes if note not in shared])
    _add_unknown(page, found.after.unknown)
    page.print()


def _add_defaults(page: Page, found: Upgrade) -> None:
    changed = [default for default in found.defaults if default.status == "changed"]
    if changed:
        page.gap()
        rows = Rows("Defaults that changed", found.before.version, found.after.version)
        for default in changed:
            rows.add(default.key, fmt.setting(default.before), fmt.setting(default.after))
        rows.add_to(page)
    for status, version in (("new", found.after.version), ("gone", found.after.version)):
        listed = [
            f"{default.key} {fmt.setting(default.after if status == 'new' else default.before)}"
            for default in found.defaults
            if default.status == status
        ]
        if listed:
            page.heading(f"{status.capitalize()} in {version}")
            page.say((", ".join(listed), QUIET), indent=2)


def _add_notes(page: Page, title: str, notes: Sequence[str]) -> None:
    if notes:
        page.heading(title)
    for note in notes:
        page.bullet(note)


def _add_unknown(page: Page, keys: Sequence[str]) -> None:
    if keys:
        page.heading("Keys that look like options of the objective but that no version read has")
    for key in keys:
        page.bullet((key, DOUBT))


def _changed_defaults(
    name: str, before: str, after: str, config: Mapping[str, Any], trainer: str | None
) -> list[Default]:
    a, b = (defaults(name, version, config, trainer=trainer) for version in (before, after))
    return [
        *(Default(key, "changed", a[key], b[key]) for key in sorted(a.keys() & b.keys()) if a[key] != b[key]),
        *(Default(key, "new", None, b[key]) for key in sorted(b.keys() - a.keys())),
        *(Default(key, "gone", a[key], None) for key in sorted(a.keys() - b.keys())),
    ]


def _objective(found: Declaration) -> Objective:
    return from_dict(found.objective)


def _range(oldest: str, newest: str) -> str:
    return newest if oldest == newest else f"{oldest} to {newest}"
