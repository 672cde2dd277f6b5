"""One step under two objectives, in numbers and words."""

from __future__ import annotations

from collections.abc import Sequence

from audit.analyses.effective_beta import EffectiveBeta
from audit.analyses.one_step import OneStep
from audit.report import format as fmt
from audit.report.step_charts import OTHER, OWN, direction
from audit.stats import Estimate

_WHERE = {"sign": "", "difficulty": "groups with "}
_SIDES = ("correct", "wrong", "all")
MARKS = {"more": "▲", "less": "▼", "": ""}


def rows_of(result: OneStep, own: str = OWN) -> list[dict[str, str]]:
    """Quantities side by side; a change whose interval excludes 0 is marked.

    Parameters
    ----------
    own : str
        What the objective ``a`` is called.
    """
    a, b = result.a, result.b
    rows = [
        _row(
            "clip-zeroed loss tokens",
            fmt.percent_estimate(a.zeroed),
            fmt.percent_estimate(b.zeroed),
            _points(result.zeroed_change),
            MARKS[direction(result.zeroed_change)],
            n=_n(a.zeroed, b.zeroed),
        )
    ]
    for side in _SIDES:
        name = f"push on length, {side} answers, tokens" if side != "all" else "push on length, tokens"
        ends = [None if under.pressure is None else getattr(under.pressure, side) for under in (a, b)]
        rows.append(_row(name, *(fmt.estimate(e, sign=True) for e in ends), n=_n(*ends)))
    silent = fmt.count(a.silent), fmt.count(b.silent)
    rows.append(_row("responses without weight", *silent, n=fmt.count(result.responses)))
    middle = [_beta(under.betas) for under in (a, b)]
    rows.append(_row("effective beta at p = 0.5", *middle))
    for kind, parts in result.parts.items():
        if kind == "length":
            continue
        for part in parts:
            rows.append(
                _row(
                    f"gradient on {_WHERE[kind]}{part.name}",
                    fmt.percent_estimate(part.a),
                    fmt.percent_estimate(part.b),
                    _points(part.change),
                    MARKS[direction(part.change)],
                    n=_n(part.a, part.b),
                )
            )
    return [{own if name == OWN else name: value for name, value in row.items()} for row in rows]


def headline(result: OneStep) -> str:
    """What the change of objective does to this step, in a sentence."""
    far = result.distance
    if far.value is None:
        return "At least one of the two objectives puts no weight on this step: no direction to compare."
    if far.value < 1e-9:
        bigger = result.scale.value
        if bigger is None or abs(bigger - 1.0) < 1e-9:
            return "The same weights on every token of this step."
        return f"The same direction on this step; weights {fmt.number(bigger)} times as large."
    return (
        f"Another direction on this step: 1 - cosine = {fmt.estimate(far)}, weights "
        f"{fmt.estimate(result.scale)} times as large (n = {fmt.count(far.n)})."
    )


def _row(name: str, own: str, other: str, change: str = "", mark: str = "", *, n: str = "") -> dict[str, str]:
    return {"": name, OWN: own, OTHER: other, "change": f"{mark} {change}".strip(), "n": n}


def _n(a: Estimate | None, b: Estimate | None) -> str:
    """Responses behind two numbers: one count where they are the same."""
    counts = dict.fromkeys(fmt.count(e.n) for e in (a, b) if e is not None)
    return " / ".join(counts)


def _points(change: Estimate) -> str:
    """A change of a share, in percentage points."""
    if change.value is None:
        return fmt.NOTHING
    low, high = (None if end is None else 100 * end for end in (change.low, change.high))
    return f"{fmt.interval(100 * change.value, low, high, sign=True)} pp"


def _beta(betas: Sequence[EffectiveBeta]) -> str:
    middle = [each.beta for each in betas if abs(each.rate - 0.5) < 1e-9]
    return fmt.number(middle[0]) if middle else "no KL"
