"""What every field of an objective may hold, read off its types: what a form for objectives is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import msgspec.inspect as mi

from audit.objectives.objective import PARTS, Objective

Kind = Literal["choice", "switch", "number", "integer", "pair", "part", "variant", "list", "json"]
"""``choice``: one of some values. ``pair``: two numbers. ``part``: a group of fields. ``variant``: one of
some groups, named by its ``kind``. ``list``: any number of groups. ``json``: anything else, as JSON."""


class Field(msgspec.Struct, frozen=True):
    """One field."""

    name: str
    kind: Kind
    optional: bool = False
    """Null is allowed too."""
    choices: tuple[Any, ...] = ()
    """Of ``choice``: the values; of ``variant``: the kinds."""
    low: float | None = None
    """Least number that is allowed; itself allowed unless ``above``."""
    high: float | None = None
    above: bool = False
    default: Any = None
    """As plain values; null where the field must be given."""
    inner: Mapping[str, tuple[Field, ...]] = {}
    """Fields of the group, by kind; under the empty name where there is one group only."""

    def start(self, kind: str = "") -> Any:
        """Plain values to begin with where the field was null: the defaults of its fields."""
        if self.kind in ("number", "integer"):
            least = self.low or 0
            return self.default if self.default is not None else least + (1 if self.above else 0)
        if self.kind == "pair":
            return [-1.0, 1.0]
        if self.kind == "list":
            return []
        if self.kind not in ("part", "variant"):
            return self.default if self.default is not None else next(iter(self.choices), None)
        name = kind or next(iter(self.inner))
        made = {each.name: each.default if _given(each) else each.start() for each in self.inner[name]}
        return {"kind": name} | made if self.kind == "variant" else made


def objective_fields() -> tuple[Field, ...]:
    """Return the parts of an objective, in the order in which a token meets them."""
    named = {each.name: each for each in _fields(mi.type_info(Objective))}
    return tuple(named[part] for part in PARTS)


def _given(field: Field) -> bool:
    return field.optional or field.default is not None


def _fields(info: Any) -> tuple[Field, ...]:
    return tuple(_field(each.name, each.type, _default(each)) for each in info.fields)


def _default(field: Any) -> Any:
    if field.required:
        return None
    made = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return msgspec.to_builtins(made)


def _field(name: str, info: Any, default: Any) -> Field:
    options: list[Any] = list(info.types) if isinstance(info, mi.UnionType) else [info]
    held = [each for each in options if not isinstance(each, mi.NoneType)]
    optional = len(held) < len(options)
    if len(held) == 1:
        return _of_one(name, held[0], optional, default)
    if all(isinstance(each, mi.StructType) for each in held):
        inner = {str(each.tag): _fields(each) for each in held}
        return Field(name, "variant", optional, tuple(inner), default=default, inner=inner)
    return Field(name, "json", optional, default=default)


def _of_one(name: str, one: Any, optional: bool, default: Any) -> Field:
    """The field of one type."""
    made = Field(name, "json", optional, default=default)
    replace = msgspec.structs.replace
    if isinstance(one, mi.StructType):
        made = replace(made, kind="part", inner={"": _fields(one)})
    elif isinstance(one, mi.LiteralType):
        made = replace(made, kind="choice", choices=tuple(one.values))
    elif isinstance(one, mi.BoolType):
        made = replace(made, kind="switch")
    elif isinstance(one, (mi.FloatType, mi.IntType)):
        low, high = (one.gt if one.ge is None else one.ge), (one.lt if one.le is None else one.le)
        kind: Kind = "number" if isinstance(one, mi.FloatType) else "integer"
        made = replace(made, kind=kind, low=low, high=high, above=one.gt is not None)
    elif isinstance(one, mi.TupleType) and all(isinstance(each, mi.FloatType) for each in one.item_types):
        made = replace(made, kind="pair")
    elif isinstance(one, mi.VarTupleType) and isinstance(one.item_type, mi.StructType):
        made = replace(made, kind="list", inner={"": _fields(one.item_type)})
    return made
