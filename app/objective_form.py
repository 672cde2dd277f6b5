"""A form for objectives: a widget for every field, read off the types; the address carries what was changed.

What was changed is one text, ``clip.epsilon_high=0.28 scale.kind=none``, as ``--set`` takes it. It is the one
thing that is kept: every widget shows what the text says, and writes to it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st
from audit.app import parts

from audit.errors import AuditError
from audit.objectives.changes import Fields, changed, changes_between, read_changes, write_changes
from audit.objectives.fields import Field, objective_fields
from audit.objectives.objective import Objective, from_dict
from audit.report import format as fmt
from audit.report.consequences import FIELDS, PARTS

SET = "set"
"""Key of the text, and parameter of the URL."""
Put = Callable[[Any], None]
"""Takes the new value of a field."""


def ask(start: Objective) -> Objective | None:
    """Show the form; return the objective that it describes, None where that is none (the page says why)."""
    begin = start.to_dict()
    text = str(st.session_state.get(SET, st.query_params.get(SET, "")))
    fields, error = _applied(begin, text)
    grid = st.container()
    st.text_input(
        "Changes",
        key=SET,
        bind="query-params",
        placeholder="none: scale.kind=none clip.epsilon_high=0.28",
        help="Every change as text, as the command line takes it after --set; the address carries it.",
    )
    with grid:
        _parts(begin, fields)
    if not error:
        try:
            return from_dict(fields, where="these fields")
        except AuditError as problem:
            error = str(problem)
    st.error("This is no objective yet:")
    parts.say(error)
    return None


def _applied(begin: Fields, text: str) -> tuple[Fields, str]:
    try:
        return changed(begin, read_changes(text)), ""
    except AuditError as problem:
        return begin, str(problem)


def reset() -> None:
    """Take every change back."""
    st.session_state[SET] = ""


def _parts(begin: Fields, fields: Fields) -> None:
    """One popover a part; a part that was changed is marked."""
    with st.grid(4, min_column_width=150):
        for part in objective_fields():
            differs = bool(changes_between({part.name: begin[part.name]}, {part.name: fields[part.name]}))
            label = f"{part.name} · {_summary(part, fields[part.name])}"
            kind = "primary" if differs else "secondary"
            with st.popover(label, width="stretch", type=kind):
                st.caption(f"{part.name}: {PARTS.get(part.name, '')}")

                def put(value: Any, name: str = part.name) -> None:
                    wanted = {**copy.deepcopy(fields), name: value}
                    st.session_state[SET] = write_changes(changes_between(begin, wanted))

                _widget(part, part.name, fields[part.name], put)


def _summary(part: Field, value: Any) -> str:
    """The setting of a part in a word or two; only words of ours."""
    if not isinstance(value, dict):
        return "?"
    kind = value.get("kind")
    if isinstance(kind, str):
        known = {str(each) for field in part.inner.get("", ()) for each in field.choices} | set(part.choices)
        return kind if kind in known else "?"
    if part.name == "kl":
        return " + ".join(name for name in ("reward", "loss") if value.get(name)) or "none"
    if part.name == "ratio":
        return "1" if value.get("denominator") == "theta" else f"{value.get('level')}".replace("_", "-")[:14]
    inner = {field.name: field.default for field in part.inner.get("", ())}
    moved = [name for name, default in inner.items() if value.get(name, default) != default]
    return f"{len(moved)} set" if moved else "none"


def _widget(field: Field, path: str, value: Any, put: Put) -> None:
    draw = _DRAWN.get(field.kind, _json)
    draw(field, path, value, put)


def _plain(field: Field, path: str, shown: Any, put: Put, widget: Callable[..., Any], **options: Any) -> None:
    """Draw one widget: it shows what the text says, whatever it showed before."""
    key = f"what-if:{path}"
    st.session_state[key] = shown

    def take() -> None:
        put(st.session_state[key])

    widget(field.name, key=key, on_change=take, help=FIELDS.get(path), **options)


def _choice(field: Field, path: str, value: Any, put: Put) -> None:
    options = [*([None] if field.optional else []), *field.choices]
    shown = value if value in options else options[0]
    _plain(field, path, shown, put, st.selectbox, options=options, format_func=fmt.setting)


def _switch(field: Field, path: str, value: Any, put: Put) -> None:
    _plain(field, path, bool(value), put, st.toggle)


def _number(field: Field, path: str, value: Any, put: Put) -> None:
    whole = field.kind == "integer"
    make = int if whole else float
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    shown = make(value) if good else None
    low, high = (None if bound is None else make(bound) for bound in (field.low, field.high))
    if shown is not None and ((low is not None and shown < low) or (high is not None and shown > high)):
        shown = None
    fallback = None if field.optional else field.start()
    _plain(
        field,
        path,
        shown,
        lambda given: put(fallback if given is None else given),
        st.number_input,
        min_value=low,
        max_value=high,
        step=1 if whole else _step(shown),
        format=None if whole else "%g",
        value=None,
        placeholder="none" if field.optional else "",
    )


def _step(shown: float | None) -> float:
    """A step that changes the number by about a tenth."""
    size = abs(shown or 0.1)
    step = 0.01
    while step * 20 < size:
        step *= 10
    while step > size / 2:
        step /= 10
    return step


def _pair(field: Field, path: str, value: Any, put: Put) -> None:
    """Two numbers and whether they bound anything."""
    on = isinstance(value, (list, tuple)) and len(value) == 2
    _plain(field, path, on, lambda given: put(field.start() if given else None), st.toggle)
    if on:
        for place, (column, name) in enumerate(zip(st.columns(2), ("low", "high"), strict=True)):
            with column:
                bound = Field(name, "number")

                def take(given: Any, place: int = place) -> None:
                    put([given if at == place else each for at, each in enumerate(value)])

                _number(bound, f"{path}.{name}", value[place], take)


def _part(field: Field, path: str, value: Any, put: Put) -> None:
    on = isinstance(value, dict)
    inside = st.container()
    if field.optional:
        _plain(field, path, on, lambda given: put(field.start() if given else None), st.toggle)
        inside = st.container(border=on)
    if on:
        with inside:
            _fields(field.inner[""], path, value, put)


def _variant(field: Field, path: str, value: Any, put: Put) -> None:
    kind = value.get("kind") if isinstance(value, dict) else None
    shown = kind if kind in field.choices else field.choices[0]

    def turn(given: str) -> None:
        # What both kinds call by one name is kept: a band stays the band that it was.
        made = field.start(given)
        kept = {k: v for k, v in (value if isinstance(value, dict) else {}).items() if k in made}
        put(made | kept | {"kind": given})

    named = Field("kind", "choice", choices=field.choices)
    _choice(named, f"{path}.kind", shown, turn)
    if kind == shown:
        _fields(field.inner[shown], path, value, put)


def _list(field: Field, path: str, value: Any, put: Put) -> None:
    held = list(value) if isinstance(value, (list, tuple)) else []
    each = Field("", "part", inner=field.inner)

    def resize(given: int) -> None:
        put([*held[:given], *(each.start() for _ in range(given - len(held)))])

    count = Field(field.name, "integer", low=0, high=4)
    _number(count, path, len(held), resize)
    for place, one in enumerate(held):
        with st.container(border=True):

            def take(given: Any, place: int = place) -> None:
                put([given if at == place else other for at, other in enumerate(held)])

            _part(each, f"{path}.{place}", one, take)


def _json(field: Field, path: str, value: Any, put: Put) -> None:
    def take(given: str) -> None:
        try:
            put(json.loads(given) if given.strip() else None)
        except ValueError:
            put(given.strip())

    shown = "" if value is None else (value if isinstance(value, str) else json.dumps(value))
    _plain(field, path, shown, take, st.text_input, placeholder="none, or JSON")


def _fields(fields: tuple[Field, ...], path: str, value: Fields, put: Put) -> None:
    def take(given: Any, name: str) -> None:
        put({**value, name: given})

    for field in fields:
        _widget(field, f"{path}.{field.name}", value.get(field.name), partial(take, name=field.name))


_DRAWN: dict[str, Callable[[Field, str, Any, Put], None]] = {
    "choice": _choice,
    "switch": _switch,
    "number": _number,
    "integer": _number,
    "pair": _pair,
    "part": _part,
    "variant": _variant,
    "list": _list,
}
