"""What kind of value an option takes, by its default: a switch, a number, a word or a list.

Without this a switch of "false" would be on, as any text that is not empty is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.blame import shown


def check_kinds(
    framework: str, config: Mapping[str, Any], defaults: Mapping[str, Any], *, mixed: Iterable[str] = ()
) -> None:
    """Refuse values of another kind than the option's default.

    Parameters
    ----------
    framework : str
        For messages.
    config, defaults : Mapping
        By the same keys. A value or a default of None says nothing of the kind.
    mixed : iterable of str
        Options that take several kinds.

    Raises
    ------
    BadObjective
        With the option and its value.
    """
    free = set(mixed)
    for key, value in config.items():
        default = defaults.get(key)
        if value is None or default is None or key in free:
            continue
        expected = _refused(value, default)
        if expected:
            raise BadObjective(f"{framework}'s {key}={shown(value)} must be {expected}.")


def _refused(value: Any, default: Any) -> str | None:
    """What the value should have been, or None where it is."""
    if isinstance(default, bool):
        return None if isinstance(value, int | float) and value in (0, 1) else "true or false"
    if isinstance(default, int | float):
        return None if _is_number(value) else "a finite number"
    if isinstance(default, str):
        return None if isinstance(value, str) else "text"
    if isinstance(default, list):
        return None if isinstance(value, list | tuple) else "a list"
    return None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False
