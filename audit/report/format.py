"""Numbers, intervals and foreign strings as people read them; shared by terminal, HTML and Markdown."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from audit import counted

if TYPE_CHECKING:
    from audit.stats import Estimate

plural = counted.plural
NOTHING = "–"
"""Shown where a log gives no value."""
NO_OBJECTIVE = "none declared"
"""Stands for the objective of a run that declares none."""
LONGEST = 4_000
"""Characters of a string that are shown; more only where a text is asked for whole."""
LONGEST_WORD = 400
"""Characters of it without a space: a path still fits, a name of a megabyte does not."""
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
_ROUNDING = 1e-9
"""Smaller than this is what is left of sums that cancel."""
_LEVELS = ((0.9, "high"), (0.7, "fair"), (0.0, "low"))


def visible(text: object, *, whole: bool = False) -> str:
    """Return a string from a log with everything that does not print made visible.

    Escape codes, newlines, zero-width and direction-changing characters become ``\\x1b``, ``\\n``,
    ``\\u200b``, so that what is shown is what is there, on one line.

    Parameters
    ----------
    whole : bool
        Keep every character of a long text. Else the middle is left out, and its length told.
    """
    string = str(text) if whole else shortened(str(text))
    return string if string.isprintable() else "".join(map(_visible_character, string))


def shortened(string: str) -> str:
    """Return a string in which the middle of words and of the whole is left out where they are too long."""
    if len(string) <= LONGEST_WORD:
        return string
    return _cut(_LONG_WORD.sub(lambda word: _cut(word[0], LONGEST_WORD), string), LONGEST)


def visible_lines(text: str) -> str:
    """Return a whole text with its line breaks kept, and everything else that does not print made visible."""
    return "\n".join(visible(line, whole=True) for line in text.split("\n"))


def _cut(string: str, most: int) -> str:
    """The ends of a string that is longer than ``most``, most of them from its beginning."""
    if len(string) <= most:
        return string
    first, last = most // 2, most // 4
    return f"{string[:first]}…[{len(string) - first - last:,} characters]…{string[-last:]}"


def _visible_character(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def count(n: int | None) -> str:
    """Return an integer with thousands separators."""
    return NOTHING if n is None else f"{n:,}"


def number(value: float | None, *, decimals: int | None = None, sign: bool = False) -> str:
    """Return a number with the given decimals, or with three significant digits."""
    if value is None or not math.isfinite(value):
        return NOTHING
    plus = "+" if sign else ""
    if decimals is None:
        if abs(value) < _ROUNDING:
            return "0"
        if 1000 <= abs(value) < 1e9:
            return f"{value:{plus},.0f}"
        return f"{value:{plus}.3g}"
    rounded = round(value, decimals) or 0.0
    # A value that rounds to nothing has no sign.
    return f"{rounded:{plus if rounded else ''},.{decimals}f}"


def percent(share: float | None, *, decimals: int = 0) -> str:
    """Return a fraction as a percentage; what is not nothing is not shown as 0 %."""
    if share is None or not math.isfinite(share):
        return NOTHING
    if share and round(100 * abs(share), decimals) == 0:
        smallest = 10.0**-decimals
        return f"{'<' if share > 0 else '>-'}{smallest:g} %"
    return f"{100 * share:.{decimals}f} %"


def decimals_for(value: float | None, low: float | None, high: float | None) -> int | None:
    """Return the decimals that a value and its interval share: two significant digits of the width."""
    if value is None or low is None or high is None or not all(map(math.isfinite, (value, low, high))):
        return None
    width = high - low
    if width <= 0:
        return None
    decimals = max(1 - math.floor(math.log10(width)), 0)
    if low * high > 0:
        # An end that is not zero is not shown as zero: it would hide that the interval excludes it.
        decimals = max(decimals, -math.floor(math.log10(min(abs(low), abs(high)))))
    return decimals if decimals <= 6 else None


def interval(value: float | None, low: float | None, high: float | None, *, sign: bool = False) -> str:
    """Return ``0.43 [0.40, 0.46]``, or the value and ``no interval``."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return f"{number(value, sign=sign)} [no interval]"
    if max(map(abs, (value, low, high))) < _ROUNDING:
        return "0 [0, 0]"
    shared = decimals_for(value, low, high)
    shown = [number(x, decimals=shared, sign=sign) for x in (value, low, high)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def estimate(e: Estimate | None, *, sign: bool = False) -> str:
    """Return an estimate with its interval."""
    return NOTHING if e is None else interval(e.value, e.low, e.high, sign=sign)


def percent_interval(low: float | None, high: float | None) -> str:
    """Return ``[94, 98] %``."""
    if low is None or high is None:
        return NOTHING
    width = 100 * (high - low)
    decimals = min(max(-math.floor(math.log10(width)), 0), 2) if width > 0 else 0
    shown = [number(100 * x, decimals=decimals) for x in (low, high)]
    return f"[{shown[0]}, {shown[1]}] %"


def percent_estimate(e: Estimate | None) -> str:
    """Return a share with its interval, ``4.7 [3.1, 6.6] %``."""
    if e is None or e.value is None:
        return NOTHING
    if e.low is None or e.high is None:
        return f"{percent(e.value, decimals=1)} [no interval]"
    decimals = decimals_for(100 * e.value, 100 * e.low, 100 * e.high) or 0
    shown = [number(100 * x, decimals=decimals) for x in (e.value, e.low, e.high)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}] %"


def factor(log_scale: float | None) -> float | None:
    """Return exp(log_scale): how many times larger B's weights are than A's."""
    return None if log_scale is None else math.exp(log_scale)


def factor_estimate(log_scale: Estimate) -> str:
    """Return the size of B's weights as a multiple of A's, ``× 0.38 [0.35, 0.41]``."""
    scaled = [factor(x) for x in (log_scale.value, log_scale.low, log_scale.high)]
    return f"× {interval(*scaled)}"


def confidence(value: float) -> str:
    """Return ``0.95 high``; the words are a heuristic, as the number is."""
    return f"{value:.2f} {next(word for floor, word in _LEVELS if value >= floor)}"


def setting(value: Any) -> str:
    """Return the value of an objective's field, short: ``group_std``, ``none``, ``0.04 k3 pathwise``."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        if "coefficient" in value:
            return " ".join(setting(inner) for inner in value.values() if inner is not None)
        return " ".join(f"{key} {setting(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(setting(inner) for inner in value)}]"
    return visible(value)


def objective_name(objective: dict[str, Any] | None) -> str:
    """Return the name of a declared objective, or say that none is declared."""
    if not objective:
        return NO_OBJECTIVE
    from audit.facts.declared import label
    from audit.objectives.objective import from_dict

    fields = {key: value for key, value in objective.items() if key != "source"}
    return visible(label(from_dict(fields)))
