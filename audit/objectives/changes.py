"""Changes of an objective as text, ``scale.ddof=1 clip.epsilon_high=0.28``, as ``--set`` takes them."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from audit.errors import BadObjective
from audit.objectives.objective import PARTS

Fields = dict[str, Any]
"""An objective as nested plain values."""


def changed(fields: Fields, changes: Iterable[str]) -> Fields:
    """Apply ``FIELD=VALUE`` changes to a copy; values are JSON, anything else is text. Nothing is validated.

    Raises
    ------
    BadObjective
        A change is not of that form.
    """
    made = copy.deepcopy(fields)
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals:
            msg = f"--set {change}: expected FIELD=VALUE, as in scale.ddof=1."
            raise BadObjective(msg)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        *parents, leaf = path.strip().split(".")
        inner = made
        for parent in parents:
            if not isinstance(inner.get(parent), dict):
                inner[parent] = {}
            inner = inner[parent]
        if value == "none" and isinstance(inner.get(leaf), (dict, type(None))):
            value = None
        inner[leaf] = value
    return made


def changes_between(start: Fields, wanted: Fields) -> list[str]:
    """Return the changes that make ``wanted`` of ``start``; names of objectives are no change."""
    made: list[str] = []
    for part in PARTS:
        _add(part, start.get(part), wanted.get(part), made)
    return made


def _add(path: str, before: Any, after: Any, made: list[str]) -> None:
    groups = isinstance(before, Mapping) and isinstance(after, Mapping) and before.keys() == after.keys()
    # Names of reward components may hold a dot: the weights are one value.
    if groups and path != "shaping.weights":
        for key in after:
            _add(f"{path}.{key}", before[key], after[key], made)
    elif _plain(before) != _plain(after):
        made.append(f"{path}={_text(after)}")


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _text(value: Any) -> str:
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, separators=(",", ":"))


def read_changes(text: str) -> list[str]:
    """Split changes as a shell does: by spaces, quotes hold together.

    Raises
    ------
    BadObjective
        A quote is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        msg = f"{text!r}: {error}. Changes are FIELD=VALUE, with a space between."
        raise BadObjective(msg) from None


def write_changes(changes: Sequence[str]) -> str:
    """The text of which :func:`read_changes` makes ``changes``."""
    return shlex.join(changes)
