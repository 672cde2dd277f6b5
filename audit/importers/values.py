"""Values as frameworks write them → values of the rollout schema, each right or named as odd.

Numbers come as strings, wrapped in lists of one, as bare ``NaN`` or ``null``; ids come as floats; lists come
with one number too many. A value is converted only where it can mean one thing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

WHOLE = 2.0**53
"""Beyond this a float64 does not hold every integer."""
# As a JSON writer with default=str leaves numbers of torch and NumPy.
_PRINTED = re.compile(r"(?:tensor|array|np\.\w+|numpy\.\w+)\(\[?([^\[\](),]+)\]?(?:,[^()]*)?\)")


_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_LONGEST = 4000
"""Digits, or bits, of a whole number; a longer one is junk."""


class OddValue(ValueError):
    """A value that cannot mean what its column says; the text is the reason that is counted."""


def unwrapped(value: Any) -> Any:
    """Take a value out of lists of length one, as NeMo-RL writes them."""
    while isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    return value


def number(value: Any, name: str) -> float | None:
    """Return a float64; None where nothing was logged (null, empty text).

    NaN and infinities stay: they were logged.

    Raises
    ------
    OddValue
        The value is no number.
    """
    value = unwrapped(value)
    if value is None or value == "":
        return None
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        try:
            return float(value)
        except OverflowError:
            raise OddValue(f"{name} is larger than a float can be") from None
    if isinstance(value, str):
        text = value.strip().lower()
        if printed := _PRINTED.fullmatch(text):
            text = printed[1].strip()
        if text in {"none", "null"}:
            return None
        if text in {"true", "false"}:
            return float(text == "true")
        try:
            return float(text)
        except ValueError:
            pass
    raise OddValue(f"{name} is no number")


def integer(value: Any, name: str) -> int | None:
    """Return an int; None where nothing was logged.

    Raises
    ------
    OddValue
        The value is no whole number, or a float too large to be exact.
    """
    value = unwrapped(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, str) and len(value) < _LONGEST and _WHOLE.fullmatch(value):
        return int(value)
    found = number(value, name)
    if found is None or math.isnan(found):
        return None
    if not math.isfinite(found) or found != round(found):
        raise OddValue(f"{name} is no whole number")
    if abs(found) > WHOLE:
        raise OddValue(f"{name} is a float beyond 2**53, which holds no exact integer")
    return int(found)


def flag(value: Any, name: str) -> bool | None:
    """Return a bool from true/false, 0/1 or their text; None where nothing was logged.

    Raises
    ------
    OddValue
        The value is another number, or no number.
    """
    found = number(value, name)
    if found is None or math.isnan(found):
        return None
    if found not in (0.0, 1.0):
        raise OddValue(f"{name} is neither true nor false")
    return bool(found)


def identifier(value: Any, name: str) -> str | None:
    """Return an id as text: ``7`` and ``7.0`` are one id; None where nothing was logged.

    Raises
    ------
    OddValue
        The value is a list or object, or a float that holds no exact integer.
    """
    value = unwrapped(value)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        whole = int(value)
        if whole.bit_length() > _LONGEST:
            raise OddValue(f"{name} is no id")
        return str(whole)
    if isinstance(value, (float, np.floating)):
        exact = integer(float(value), name)
        return None if exact is None else str(exact)
    raise OddValue(f"{name} is no id")


def numbers(value: Any, name: str) -> list[float | None] | np.ndarray | None:
    """Return a list of float64; a bare number is none, null means not logged.

    Raises
    ------
    OddValue
        The value is no list, or holds something that is no number.
    """
    found = _list(value, name)
    if found is None or isinstance(found, np.ndarray):
        return found
    if set(map(type, found)) == {float}:
        return list(found)
    return [number(each, f"a value of {name}") for each in found]


def integers(value: Any, name: str) -> list[int] | np.ndarray | None:
    """Return a list of int; null means not logged.

    Raises
    ------
    OddValue
        The value is no list, or holds something that is no whole number.
    """
    found = _list(value, name)
    if found is None or isinstance(found, np.ndarray):
        return found
    if set(map(type, found)) == {int}:
        return list(found)
    whole = [integer(each, f"a value of {name}") for each in found]
    if None in whole:
        raise OddValue(f"{name} holds a null")
    return whole  # type: ignore[return-value]


def flags(value: Any, name: str) -> list[bool] | np.ndarray | None:
    """Return a list of bool from true/false or 0/1; null means not logged.

    Raises
    ------
    OddValue
        The value is no list, or holds something else.
    """
    found = _list(value, name)
    if found is None or (isinstance(found, np.ndarray) and found.dtype == bool):
        return found
    if set(map(type, found)) <= {bool, int} and set(found) <= {0, 1}:
        return list(map(bool, found))
    made = [flag(each, f"a value of {name}") for each in found]
    if None in made:
        raise OddValue(f"{name} holds a null")
    return made  # type: ignore[return-value]


def _list(value: Any, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return value[0] if value.ndim == 2 and len(value) == 1 else value
    if not isinstance(value, (list, tuple)):
        raise OddValue(f"{name} is no list")
    # A list of one list is a wrapped list; a list of one number is a response of one token.
    if len(value) == 1 and isinstance(value[0], (list, tuple)):
        return list(value[0])
    return list(value)


def text(value: Any) -> str | None:
    """Return text as it is; messages of a conversation become ``role: content`` lines.

    Lone surrogates, which no file format keeps, become question marks.
    """
    value = unwrapped(value) if not _is_conversation(value) else value
    if value is None:
        return None
    if isinstance(value, str):
        said = value
    elif _is_conversation(value):
        said = "\n".join(_message(each) for each in value)
    else:
        said = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return said if said.isascii() else said.encode("utf-8", "replace").decode("utf-8")


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(m, dict) and "role" in m for m in value)
    )


def _message(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = [str(p.get("text", f"[{p.get('type')}]")) if isinstance(p, dict) else str(p) for p in content]
        content = "\n".join(parts)
    said = "" if content is None else str(content)
    thought = message.get("reasoning_content")
    if isinstance(thought, str) and thought:
        said = f"{thought}\n{said}" if said else thought
    calls = message.get("tool_calls")
    if calls:
        said += f"\n{json.dumps(calls, ensure_ascii=False, default=str)}"
    return f"{message['role']}: {said}"
