"""Charts of one step under two objectives: what each pulls on, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import altair as alt
import polars as pl

from audit.analyses.one_step import OneStep
from audit.analyses.step_parts import StepPart
from audit.report.charts import nothing_to_draw
from audit.report.tooltips import told
from audit.stats import Estimate

OWN, OTHER = "the run's own", "what if"
GREY = "#8A8F98"
"""Of what the run did; the other objective has the colour of the run."""
TITLES = {
    "length": "response length, tokens",
    "sign": "sign of the advantage",
    "difficulty": "success rate of the group",
}
_HEIGHT = 260
_SCHEMA = {
    **dict.fromkeys(("part", "objective", "change"), pl.String),
    "n": pl.Int64,
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
}
Measure = Literal["share", "per_token"]
MEASURES: dict[str, Measure] = {"share of the gradient": "share", "weight of a token": "per_token"}


def parts_frame(parts: Sequence[StepPart], measure: Measure, own: str = OWN) -> pl.DataFrame:
    """One row a part and objective: value, low, high, n, and whether the two differ."""
    rows = [
        {
            "part": part.name,
            "objective": name,
            "value": e.value,
            "low": e.low,
            "high": e.high,
            "n": e.n,
            "change": direction(part.change) or "not told apart",
        }
        for part in parts
        for name, e in _two(part, measure, own)
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)


def direction(change: Estimate) -> str:
    """``more`` or ``less`` where the interval of a change excludes 0, else nothing."""
    if change.value is None or not change.excludes(0.0):
        return ""
    return "more" if change.value > 0 else "less"


def parts_chart(
    result: OneStep, kind: str, measure: Measure, colour: str, *, own: str = OWN
) -> alt.LayerChart:
    """Bars of both objectives with their 95 % intervals, one pair a part.

    Parameters
    ----------
    kind : str
        ``length``, ``sign`` or ``difficulty``.
    colour : str
        Of the run.
    own : str
        What the objective ``a`` is called.

    Raises
    ------
    AuditError
        The step has no such parts.
    """
    parts = result.parts.get(kind, [])
    frame = parts_frame(parts, measure, own)
    if not frame["value"].is_not_null().any():
        raise nothing_to_draw(f"no gradient by {kind}")
    percent = measure == "share"
    title = "share of the gradient" if percent else "weight of a token, mean = 1"
    names = [part.name for part in parts]
    base = alt.Chart(frame, height=_HEIGHT).encode(
        x=alt.X("part:N", title=TITLES[kind], sort=names, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        xOffset=alt.XOffset("objective:N", sort=[own, OTHER]),
    )
    axis = alt.Axis(format="%") if percent else alt.Axis()
    bars = base.mark_bar().encode(
        y=alt.Y("value:Q", title=title, axis=axis),
        color=_colours(colour, own),
        tooltip=told("part:N", "objective:N", "value:Q", "low:Q", "high:Q", "n:Q", "change:N"),
    )
    ends = base.mark_rule(color="grey").encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    return alt.layer(bars, ends)


def betas_chart(result: OneStep, colour: str, *, own: str = OWN) -> alt.Chart:
    """Effective KL coefficient over the success rate of a prompt, exact.

    Raises
    ------
    AuditError
        Neither objective has a KL to the reference.
    """
    rows = [
        (at.rate, at.beta, name)
        for name, under in ((own, result.a), (OTHER, result.b))
        for at in under.betas
        if at.beta is not None
    ]
    if not rows:
        raise nothing_to_draw("no KL to the reference under either objective")
    schema = {"rate": pl.Float64, "value": pl.Float64, "objective": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return (
        alt.Chart(frame, height=_HEIGHT)
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("rate:Q", title="success rate p", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("value:Q", title="effective beta", scale=alt.Scale(zero=True)),
            color=_colours(colour, own),
            strokeDash=alt.StrokeDash(
                "objective:N", title=None, sort=[own, OTHER], legend=alt.Legend(orient="top")
            ),
            tooltip=told("objective:N", "rate:Q", "value:Q"),
        )
    )


def _colours(colour: str, own: str) -> alt.Color:
    scale = alt.Scale(domain=[own, OTHER], range=[GREY, colour])
    return alt.Color("objective:N", title=None, scale=scale, legend=alt.Legend(orient="top"))


def _two(part: StepPart, measure: Measure, own: str) -> list[tuple[str, Estimate]]:
    if measure == "share":
        return [(own, part.a), (OTHER, part.b)]
    return [(own, part.per_token_a), (OTHER, part.per_token_b)]
