"""An algorithm as a value: a frozen record of orthogonal choices.

Two objectives are compared field by field, and the effect of a field is found by swapping it
(:mod:`audit.analyses.effect`).
"""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from audit.errors import BadObjective, closest
from audit.objectives.contradictions import contradictions
from audit.objectives.corrections import Correction
from audit.objectives.part import Part
from audit.objectives.parts import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Overlong,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import AnySurrogate, NoClip, Surrogate

__all__ = [
    "KL",
    "PARTS",
    "Aggregation",
    "Baseline",
    "Correction",
    "Filter",
    "LossKL",
    "Objective",
    "Overlong",
    "Part",
    "Ratio",
    "RewardKL",
    "Scale",
    "Shaping",
    "Whiten",
    "differing_fields",
    "differing_parts",
    "from_dict",
]

PARTS = ("shaping", "filter", "baseline", "scale", "ratio", "clip", "aggregation", "kl")
"""The fields of an :class:`Objective` that can be swapped, in the order in which a token meets them."""


class Objective(Part, frozen=True, kw_only=True):
    """What one training algorithm does to every token, as orthogonal choices."""

    name: str = "custom"
    shaping: Shaping = Shaping()
    filter: Filter = Filter()
    baseline: Baseline = Baseline()
    scale: Scale = Scale()
    ratio: Ratio = Ratio()
    clip: AnySurrogate = NoClip()
    aggregation: Aggregation = Aggregation()
    kl: KL = KL()

    def replace(self, **parts: Any) -> Objective:
        """Return a copy with some parts exchanged."""
        return msgspec.structs.replace(self, **parts)

    @property
    def batch_wide(self) -> bool:
        """Whether the weight of a token depends on its batch beyond sums per response."""
        return self.clip.batch_wide or self.filter.top_entropy < 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain nested dicts: what ``rlaudit objectives NAME --json`` prints and FILE.json holds."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    def problems(self) -> list[str]:
        """Contradictions between parts."""
        return list(contradictions(self.shaping, self.baseline, self.scale, self.ratio, self.kl.reward))


def from_dict(fields: dict[str, Any], *, where: str = "objective") -> Objective:
    """Build an objective from plain dicts.

    Raises
    ------
    BadObjective
        A field is unknown (with the closest valid one), a value has the wrong type or range, or two fields
        contradict each other.
    """
    try:
        objective = msgspec.convert(fields, Objective)
    except msgspec.ValidationError as error:
        msg = f"{where}: {error}{_hint(str(error))}"
        raise BadObjective(msg) from None
    problems = [problem for part in _walk(objective) for problem in part.problems()]
    problems += [f"{path} must be a finite number" for path in _not_finite(fields)]
    if problems:
        msg = f"{where}: {'; '.join(problems)}."
        raise BadObjective(msg)
    return objective


def differing_parts(a: Objective, b: Objective) -> tuple[str, ...]:
    """Return the names of the parts in which two objectives differ, in the order of :data:`PARTS`."""
    return tuple(part for part in PARTS if getattr(a, part) != getattr(b, part))


def differing_fields(a: Objective, b: Objective) -> list[tuple[str, Any, Any]]:
    """Return (dotted field, value in a, value in b) for every leaf in which two objectives differ.

    Where a part is switched off on one side (its kind is ``none``), only its kind is named: the other fields
    do nothing there. A field that only one side has (surrogates of different kinds) is null on the other.
    """
    rows: list[tuple[str, Any, Any]] = []
    for part in differing_parts(a, b):
        _leaves(part, msgspec.to_builtins(getattr(a, part)), msgspec.to_builtins(getattr(b, part)), rows)
    return rows


def _leaves(path: str, a: Any, b: Any, rows: list[tuple[str, Any, Any]]) -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        switched = a.get("kind") != b.get("kind") and "none" in (a.get("kind"), b.get("kind"))
        for key in ["kind"] if switched else a | b:
            _leaves(f"{path}.{key}", a.get(key), b.get(key), rows)
    elif a != b:
        rows.append((path, _set(a), _set(b)))


def _set(value: Any) -> Any:
    """A group of fields without those that are off."""
    if isinstance(value, dict):
        return {key: _set(inner) for key, inner in value.items() if inner not in (None, False, [], {})}
    return value


def _not_finite(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path.lstrip(".")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _not_finite(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            yield from _not_finite(inner, f"{path}[{place}]")


def _walk(part: Part) -> Iterator[Part]:
    yield part
    for field in part.__struct_fields__:
        value = getattr(part, field)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Part):
                yield from _walk(inner)


def _choices(message: str) -> str:
    """Valid values of the field at which an enumeration was missed."""
    given, path = re.findall(r"Invalid enum value '?([^']*?)'? - at `\$\.?([^`]*)`", message)[0]
    hint: Any = Objective
    for name in path.split("."):
        options = hint if isinstance(hint, tuple) else (hint,)
        structs = [o for o in options if isinstance(o, type) and issubclass(o, Part)]
        hints = {k: v for struct in structs for k, v in typing.get_type_hints(struct).items()}
        hint = hints.get(name.partition("[")[0])
        hint = typing.get_args(hint) if isinstance(hint, types.UnionType) else hint
    literals = [v for o in (hint if isinstance(hint, tuple) else (hint,)) for v in typing.get_args(o)]
    values = [str(v) for v in literals if not isinstance(v, type)]
    return f".{closest(given, values)} Valid: {', '.join(values)}" if values else ""


_STRUCTS: tuple[type[Part], ...] = (
    *(Objective, Shaping, Overlong, Filter, Baseline, Scale, Whiten),
    *(Ratio, Correction, Aggregation, KL, RewardKL, LossKL),
)
_SURROGATES: tuple[type[Surrogate], ...] = tuple(Surrogate.__subclasses__())
_NAMES = sorted({name for struct in (*_STRUCTS, *_SURROGATES) for name in struct.__struct_fields__})
_KINDS = sorted(str(struct.__struct_config__.tag) for struct in _SURROGATES)


def _hint(message: str) -> str:
    if "Invalid enum value" in message:
        return _choices(message)
    if "unknown field" in message:
        # The name of a field elsewhere is no advice.
        given = message.split("`")[1]
        return closest(given, [name for name in _NAMES if name != given])
    if "Invalid value" in message and ".clip.kind" in message:
        return closest(message.split("'")[1], _KINDS)
    return ""
