"""Charts of a timeline: which metric parted when, and how far the gap of one has moved."""

from __future__ import annotations

import altair as alt
import polars as pl

from audit.analyses.metric_curves import Curve, CurvePoint
from audit.analyses.timeline import Course, Timeline
from audit.report.charts import nothing_to_draw
from audit.report.curves_chart import PADDING, span
from audit.report.format import decimals_for, interval
from audit.report.tooltips import told
from audit.stats import Estimate

_GREY = "#888888"
_PARTED = "#64748B"
_ROW = 22


def parting_chart(timeline: Timeline) -> alt.LayerChart:
    """A row a metric, grey while the runs go together, coloured from where they part; the first on top.

    Raises
    ------
    AuditError
        The logs hold no metric over common steps.
    """
    rows = []
    for course in timeline.courses:
        if not course.moments:
            continue
        at = None if course.parted is None else course.moments[course.parted]
        rows.append(
            {
                "metric": course.metric,
                "state": course.state,
                "first": float(course.moments[0].first_step),
                "last": float(course.moments[-1].last_step) + 1.0,
                "parted": None if at is None else float(at.first_step),
                "at": "" if at is None else span(at.first_step, at.last_step),
                "moved": "" if at is None else interval(at.moved, at.low, at.high, sign=True),
                "p": None if at is None else at.p,
            }
        )
    if not rows:
        raise nothing_to_draw("no metric over steps that both runs reached")
    schema = {"metric": pl.String, "state": pl.String, "at": pl.String, "moved": pl.String}
    schema |= dict.fromkeys(("first", "last", "parted", "p"), pl.Float64)  # type: ignore[arg-type]
    frame = pl.DataFrame(rows, schema=schema)
    y = alt.Y(
        "metric:N",
        title=None,
        sort=[row["metric"] for row in rows],
        axis=alt.Axis(labelLimit=200, labelOverlap=False, ticks=False, domain=False),
    )
    x = alt.X("first:Q", title="step", scale=alt.Scale(zero=False, nice=False))
    tooltip = told(
        alt.Tooltip("metric:N"),
        alt.Tooltip("state:N"),
        alt.Tooltip("at:N", title="steps"),
        alt.Tooltip("moved:N", title="gap moved by, 95 %"),
        alt.Tooltip("p:Q", title="p, corrected", format=".2~g"),
    )
    base = alt.Chart(frame).encode(y=y, tooltip=tooltip)
    whole = base.mark_bar(height=6, color=_GREY, opacity=0.3, cornerRadius=3).encode(x=x, x2="last:Q")
    apart = (
        base.transform_filter("datum.parted != null")
        .mark_bar(height=10, color=_PARTED, cornerRadius=3)
        .encode(x=alt.X("parted:Q", title="step"), x2="last:Q")
    )
    return alt.layer(whole, apart).properties(height=_ROW * len(rows) + 70, padding=PADDING)


def course_curves(course: Course) -> tuple[Curve, Curve]:
    """Return both runs' values of a metric over the bins of a timeline, without bands of their own."""
    sides = ([(m, m.a, m.n[0]) for m in course.moments], [(m, m.b, m.n[1]) for m in course.moments])
    a, b = (
        Curve(
            course.metric,
            course.unit,
            [
                CurvePoint(m.first_step, m.last_step, Estimate(value, None, None, n))
                for m, value, n in side
                if value is not None
            ],
        )
        for side in sides
    )
    return a, b


def moved_chart(course: Course) -> alt.LayerChart:
    """How far B - A has moved since the first bin, with its 95 % band, and a rule at 0.

    Raises
    ------
    AuditError
        Nothing of the course was tested.
    """
    rows = [
        {
            "step": (moment.first_step + moment.last_step) / 2,
            "steps": span(moment.first_step, moment.last_step),
            "moved": moment.moved,
            "low": moment.low,
            "high": moment.high,
            "p": moment.p,
            "shown": interval(moment.moved, moment.low, moment.high, sign=True),
            "n": " / ".join(f"{n:,}" for n in moment.n),
        }
        for moment in course.moments[1:]
        if moment.moved is not None and decimals_for(moment.moved, moment.low, moment.high) is not None
    ]
    if not rows:
        raise nothing_to_draw("no gap that can be tested")
    frame = pl.DataFrame(rows)
    axis = alt.Axis(format="%", tickCount=4) if course.unit.startswith("of ") else alt.Axis(tickCount=4)
    title = None
    base = alt.Chart(frame).encode(
        x=alt.X("step:Q", title=None, scale=alt.Scale(nice=False, zero=False), axis=alt.Axis(labels=False))
    )
    band = base.mark_area(opacity=0.25, color=_GREY).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    line = base.mark_line(color=_PARTED).encode(y=alt.Y("moved:Q", title=title, axis=axis))
    points = base.mark_point(filled=True, color=_PARTED, size=30).encode(
        y="moved:Q",
        tooltip=told(
            "steps:N",
            alt.Tooltip("shown:N", title="gap moved by, 95 %"),
            alt.Tooltip("p:Q", title="p, corrected", format=".2~g"),
            alt.Tooltip("n:N", title="n, A / B"),
        ),
    )
    zero = alt.Chart(pl.DataFrame({"moved": [0.0]})).mark_rule(strokeDash=[4, 4], color=_GREY)
    return alt.layer(zero.encode(y="moved:Q"), band, line, points).properties(height=110, padding=PADDING)
