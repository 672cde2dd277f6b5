"""Which options of a config a refusal is about.

The parts of an objective check their own fields, so an error may speak of ``clip.epsilon_low`` where the
user wrote ``actor.eps_clip``. What the user wrote is found by leaving options out: those without which the
error is another one, or none, made it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Path = tuple[Any, ...]
Read = Callable[[Mapping[str, Any]], str | None]

_SHOWN = 3
_LONGEST = 80


def named(message: str, config: Mapping[str, Any], read: Read) -> str:
    """Return a refusal that names an option of the config and its value.

    Parameters
    ----------
    message : str
        The refusal of ``config``.
    config : Mapping
        The framework's own config; not changed.
    read : callable
        Reads a config: the refusal as text, or None where there is none.

    Returns
    -------
    str
        ``message`` as it is, where it names one of the options to blame with its value, or where none is
        (a default is refused); else with them added, the first three.
    """
    if read({}) == message:
        return message
    found = list(_involved(message, config, config, (), read))
    found = found or _first(message, config, read)
    if not found or any(_says(message, path, value) for path, value in found):
        return message
    listed = ", ".join(f"{_key(path)}={shown(value)}" for path, value in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{message} In the config: {listed}{more}."


def deeper_than(levels: int, config: Mapping[str, Any]) -> bool:
    """Whether mappings and lists stand within each other more often than that."""
    level: list[Any] = [config]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
            if isinstance(inner, Mapping | list | tuple)
        ]
        if not level:
            return False
    return True


def shown(value: Any) -> str:
    """Return a value for a message, cut to one short line."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number too large to print"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _involved(
    message: str, config: Mapping[str, Any], tree: Mapping[str, Any], above: Path, read: Read
) -> Iterator[tuple[Path, Any]]:
    """The options, as deep as they go, without which the refusal is another one or none."""
    for key, value in tree.items():
        path = (*above, key)
        if read(_without(config, path)) == message:
            continue
        deeper: list[tuple[Path, Any]] = []
        if isinstance(value, Mapping):
            deeper = list(_involved(message, config, value, path, read))
        yield from deeper or [(path, value)]


def _first(message: str, config: Mapping[str, Any], read: Read) -> list[tuple[Path, Any]]:
    """The option with which the refusal first appears, where several make the same one."""
    leaves = list(_leaves(config))
    for index, leaf in enumerate(leaves):
        shorter = config
        for path, _ in leaves[index + 1 :]:
            shorter = _without(shorter, path)
        if read(shorter) == message:
            return [leaf]
    return []


def _says(message: str, path: Path, value: Any) -> bool:
    """Whether ``option=value`` or ``option value`` stands in a message, or the mapping that holds it."""
    *above, leaf = (re.escape(str(part).rpartition(".")[2].lstrip("-+").replace("-", "_")) for part in path)
    try:
        text = f"(?:{re.escape(repr(value))}|{re.escape(str(value))})"
    except ValueError:  # an integer of thousands of digits
        text = re.escape(shown(value))
    patterns = [rf"(?<!\w){leaf}[= ]{text}(?!\w)", *(rf"(?<!\w){part}={{" for part in above)]
    return any(re.search(pattern, message) for pattern in patterns)


def _key(path: Path) -> str:
    return ".".join(str(part) for part in path)


def _leaves(tree: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _without(tree: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """A copy without one option; a level that is empty without it goes too."""
    first, *rest = path
    left = {key: value for key, value in tree.items() if key != first}
    if not rest:
        return left
    inner = _without(tree[first], tuple(rest))
    return {key: inner if key == first else value for key, value in tree.items()} if inner else left
