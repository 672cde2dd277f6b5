"""One step under two objectives, in numbers and words."""

from __future__ import annotations

from collections.abc import Sequence

from audit.analyses.effective_beta import EffectiveBeta
from audit.analyses.length_pressure import Pressure
from audit.analyses.one_step import OneStep
from audit.report import format as fmt
from audit.report.step_charts import OTHER, OWN, direction
from audit.stats import Estimate

_SIDES = ("correct", "wrong", "all")
MARKS = {"more": "▲", "less": "▼", "": ""}


def rows_of(result: OneStep) -> list[dict[str, str]]:
    """Quantities side by side, with the change where its interval is known and a mark where it excludes 0."""
    a, b = result.a, result.b
    rows = [
        _row(
            "clip-zeroed loss tokens",
            fmt.percent_estimate(a.zeroed),
            fmt.percent_estimate(b.zeroed),
            _points(result.zeroed_change),
            MARKS[direction(result.zeroed_change)],
        )
    ]
    for side in _SIDES:
        name = f"push on length, {side} answers" if side != "all" else "push on length"
        rows.append(_row(name, _push(a.pressure, side), _push(b.pressure, side)))
    silent = f"{fmt.count(a.silent)} of {fmt.count(result.responses)}", f"{fmt.count(b.silent)}"
    rows.append(_row("responses without weight", *silent))
    middle = [_beta(under.betas) for under in (a, b)]
    rows.append(_row("effective beta at p = 0.5", *middle))
    for kind, parts in result.parts.items():
        if kind == "length":
            continue
        for part in parts:
            rows.append(
                _row(
                    f"gradient on {part.name}",
                    fmt.percent_estimate(part.a),
                    fmt.percent_estimate(part.b),
                    _points(part.change),
                    MARKS[direction(part.change)],
                )
            )
    return rows


def headline(result: OneStep) -> str:
    """What the change of objective does to this step, in a sentence."""
    far = result.distance
    if far.value is None:
        return "One of the two objectives puts no weight on this step: there is no direction to compare."
    if far.value < 1e-9:
        bigger = result.scale.value
        if bigger is None or abs(bigger - 1.0) < 1e-9:
            return "The same weights on every token of this step."
        return f"The same direction on this step; weights {fmt.number(bigger)} times as large."
    return (
        f"Another direction on this step: 1 - cosine = {fmt.estimate(far)}, weights "
        f"{fmt.estimate(result.scale)} times as large (n = {fmt.count(far.n)})."
    )


def _row(name: str, own: str, other: str, change: str = "", mark: str = "") -> dict[str, str]:
    return {"": name, OWN: own, OTHER: other, "change": f"{mark} {change}".strip()}


def _points(change: Estimate) -> str:
    """A change of a share, in percentage points."""
    if change.value is None:
        return fmt.NOTHING
    low, high = (None if end is None else 100 * end for end in (change.low, change.high))
    return f"{fmt.interval(100 * change.value, low, high, sign=True)} pp"


def _push(pressure: Pressure | None, side: str) -> str:
    return fmt.NOTHING if pressure is None else fmt.estimate(getattr(pressure, side), sign=True)


def _beta(betas: Sequence[EffectiveBeta]) -> str:
    middle = [each.beta for each in betas if abs(each.rate - 0.5) < 1e-9]
    return fmt.number(middle[0]) if middle else "no KL"
