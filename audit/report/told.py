"""Declared differences as told to people: one entry per choice, with what it does."""

from __future__ import annotations

from typing import Any, NamedTuple

from audit.analyses.explain import DeclaredPair, FieldDifference
from audit.report.consequences import consequence
from audit.report.format import setting


class Told(NamedTuple):
    """One difference in words."""

    field: str
    a: str
    b: str
    consequence: str


def told_differences(declared: DeclaredPair) -> list[Told]:
    """Return the declared differences, the settings of a kind told together with the kind.

    Where one side divides by a std and the other by none, ``scale.ddof`` and ``scale.epsilon`` are no
    differences of their own.
    """
    by_field = {difference.field: difference for difference in declared.differs}
    told = []
    for field, difference in by_field.items():
        part, _, leaf = field.partition(".")
        kind = by_field.get(f"{part}.kind")
        if kind is None:
            told.append(_told(field, setting(difference.a), setting(difference.b), difference))
        elif leaf == "kind":
            others = [d for d in declared.differs if d.field.startswith(f"{part}.") and d is not kind]
            a = _with_settings(kind.a, [(d.field, d.a) for d in others])
            b = _with_settings(kind.b, [(d.field, d.b) for d in others])
            told.append(_told(field, a, b, kind))
    return told


def _told(field: str, a: str, b: str, difference: FieldDifference) -> Told:
    return Told(field, a, b, consequence(field, difference.a, difference.b))


def _with_settings(kind: Any, settings: list[tuple[str, Any]]) -> str:
    if kind == "none":
        return "none"
    named = [f"{field.rpartition('.')[2]} {setting(value)}" for field, value in settings if value]
    return ", ".join([setting(kind), *named])
