"""Charts of groups and prompts that fill what holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from audit.analyses.prompt_course import PromptCourse
from audit.analyses.prompt_factor import Factor
from audit.analyses.prompts import PromptBreakdown
from audit.analyses.zero_groups import GroupBreakdown
from audit.report.charts import nothing_to_draw
from audit.report.colours import PALETTE
from audit.report.format import visible
from audit.report.panels import GREY, layered, series_legend, share_axis, steps_axis
from audit.report.tooltips import told
from audit.stats import Estimate

HEIGHT = 270
_RANGE = {"value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.Int64}
SAMPLES = "samples"
_DASHES = {"observed": [1, 0], "expected": [5, 4]}


def zero_panel(result: GroupBreakdown, colour: str) -> alt.LayerChart:
    """Share of groups without signal over steps, and what success rates predict, with 95 % intervals.

    Raises
    ------
    AuditError
        The log has no steps.
    """
    rows = [
        ((part.first_step + part.last_step) / 2, f"{part.first_step:,}–{part.last_step:,}", name, *_values(e))
        for part in result.by_step
        for name, e in (("observed", part.observed), ("expected", part.predicted))
        if e is not None and e.value is not None
    ]
    if not rows:
        raise nothing_to_draw("no share over steps")
    schema = {"step": pl.Float64, "steps": pl.String, "series": pl.String, **_RANGE}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    # A legend names what is drawn: where prompts come once, nothing is expected of them.
    held = [name for name in _DASHES if name in set(frame["series"])]
    base = alt.Chart(frame, height=HEIGHT).encode(x=steps_axis(), color=_pair(colour, held))
    title = "groups without signal"
    y = alt.Y("value:Q", title=title, axis=share_axis(percent=True))
    band = base.mark_area(opacity=0.16).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    line = base.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=35, filled=True)).encode(
        y=y,
        strokeDash=alt.StrokeDash(
            "series:N",
            title=None,
            legend=series_legend(),
            scale=alt.Scale(domain=held, range=[_DASHES[name] for name in held]),
        ),
        tooltip=told("series:N", "steps:N", "value:Q", "low:Q", "high:Q", "n:Q"),
    )
    return layered(band, line)


def sizes_panel(result: GroupBreakdown, colour: str) -> alt.LayerChart:
    """Share of groups that would carry no signal at other group sizes, with 95 % intervals.

    Raises
    ------
    AuditError
        None could be estimated.
    """
    rows = [
        (each.group_size, *_values(each.share), each.group_size == result.group_size)
        for each in result.by_size
        if each.share.value is not None
    ]
    if not rows:
        raise nothing_to_draw("no share at other group sizes")
    schema = {"size": pl.Int64, **_RANGE, "own": pl.Boolean}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    base = alt.Chart(frame, height=HEIGHT).encode(
        x=alt.X("size:O", title="group size G'", axis=alt.Axis(labelAngle=0))
    )
    title = "groups without signal"
    ends = base.mark_rule(color=GREY).encode(
        y=alt.Y("low:Q", title=title, axis=share_axis(percent=True)), y2="high:Q"
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        y=alt.Y("value:Q", title=title, axis=share_axis(percent=True)),
        color=alt.condition("datum.own", alt.value(colour), alt.value(GREY)),
        tooltip=told("size:O", "value:Q", "low:Q", "high:Q", "n:Q"),
    )
    return layered(ends, points)


def factor_panel(
    result: PromptBreakdown, curves: Mapping[str, Sequence[Factor]], colours: Mapping[str, str]
) -> alt.LayerChart:
    """Prompt-weight factor by success rate: exact curves, and what the run's groups show, with intervals.

    Parameters
    ----------
    curves : mapping of objective to factors at rising success rates
    colours : mapping of objective to colour
        What is drawn, and in which order.

    Raises
    ------
    AuditError
        There is neither.
    """
    exact = [
        (visible(name), at.rate, at.factor)
        for name in colours
        for at in curves.get(name, ())
        if at.rate is not None
    ]
    seen = [
        (
            visible(each.objective),
            at.rate.value,
            f"{at.low:.0%} to {at.high:.0%}",
            *_values(at.observed),
            at.expected,
        )
        for each in result.factors
        if each.objective in colours
        for at in each.bins
        if at.observed.value is not None and at.rate.value is not None
    ]
    if not exact and not seen:
        raise nothing_to_draw("no prompt-weight factor")
    lines = pl.DataFrame(
        exact, schema={"objective": pl.String, "rate": pl.Float64, "value": pl.Float64}, orient="row"
    )
    points = pl.DataFrame(
        seen,
        schema={
            "objective": pl.String,
            "rate": pl.Float64,
            "bin": pl.String,
            **_RANGE,
            "expected": pl.Float64,
        },
        orient="row",
    )
    x = alt.X("rate:Q", title="success rate p", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="~%"))
    title = "weight of a prompt (unbiased = 1)"
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=True))
    colour = _objectives(colours)
    unbiased = alt.Chart(pl.DataFrame({"value": [1.0]})).mark_rule(strokeDash=[4, 4], color=GREY)
    curve = (
        alt.Chart(lines, height=HEIGHT)
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y, color=colour, tooltip=told("objective:N", "rate:Q", "value:Q"))
    )
    ends = alt.Chart(points).mark_rule().encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=colour)
    dots = (
        alt.Chart(points)
        .mark_point(filled=True, size=55, opacity=1)
        .encode(
            x=x,
            y=y,
            color=colour,
            tooltip=told("objective:N", "bin:N", "rate:Q", "value:Q", "low:Q", "high:Q", "expected:Q", "n:Q"),
        )
    )
    return layered(unbiased.encode(y=y), curve, ends, dots)


def lorenz_panel(result: PromptBreakdown, colours: Mapping[str, str]) -> alt.LayerChart:
    """Share of the gradient on the lightest prompts, by objective and by samples alone; even is the diagonal.

    Raises
    ------
    AuditError
        No objective could be measured.
    """
    held = [each for each in result.shares if each.objective in colours]
    rows = [(visible(each.objective), x, y) for each in held for x, y in each.lorenz]
    if result.samples_share is not None:
        rows += [(SAMPLES, x, y) for x, y in result.samples_share.lorenz]
    if not rows:
        raise nothing_to_draw("no objective could be measured")
    frame = pl.DataFrame(
        rows, schema={"objective": pl.String, "x": pl.Float64, "y": pl.Float64}, orient="row"
    )
    x = alt.X("x:Q", title="share of prompts, lightest first", axis=alt.Axis(format="~%"))
    y = alt.Y("y:Q", title="share of the gradient", axis=share_axis(percent=True))
    lines = (
        alt.Chart(frame, height=HEIGHT)
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=_objectives({**colours, SAMPLES: GREY}),
            tooltip=told("objective:N", alt.Tooltip("x:Q", format=".0%"), alt.Tooltip("y:Q", format=".1%")),
        )
    )
    even = alt.Chart(pl.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})).mark_line(
        strokeDash=[4, 4], color=GREY
    )
    return layered(even.encode(x=x, y=y), lines)


def course_panel(course: PromptCourse, colour: str) -> alt.LayerChart:
    """Success rate of one prompt over steps with Wilson's 95 % intervals; mean reward where none is known.

    Raises
    ------
    AuditError
        The prompt was never drawn.
    """
    judged = any(at.success is not None for at in course.steps)
    rows = [
        (float(at.step), *_values(at.success or Estimate(None, None, None, at.samples)))
        if judged
        else (float(at.step), at.reward, None, None, at.samples)
        for at in course.steps
    ]
    frame = pl.DataFrame(rows, schema={"step": pl.Float64, **_RANGE}, orient="row").drop_nulls("value")
    if not len(frame):
        raise nothing_to_draw("no visit to this prompt")
    title = "success rate" if judged else "mean reward"
    scale = alt.Scale(domain=[0, 1]) if judged else alt.Scale(zero=False)
    y = alt.Y("value:Q", title=title, axis=share_axis(judged), scale=scale)
    base = alt.Chart(frame, height=HEIGHT).encode(x=steps_axis())
    ends = base.mark_rule(color=colour, opacity=0.5).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    line = base.mark_line(
        color=colour, strokeWidth=2, point=alt.OverlayMarkDef(size=45, filled=True, color=colour)
    ).encode(y=y, tooltip=told("step:Q", "value:Q", "low:Q", "high:Q", "n:Q"))
    return layered(ends, line)


def objective_colours(own: str | None, names: Sequence[str], colour: str) -> dict[str, str]:
    """Return a colour for each objective: that of the run for its own, others from what is left."""
    free = [each for each in PALETTE if each != colour]
    others = [name for name in names if name != own]
    shown = {name: free[at % len(free)] for at, name in enumerate(others)}
    return {own: colour, **shown} if own is not None and own in names else shown


def _pair(colour: str, held: Sequence[str]) -> alt.Color:
    colours = {"observed": colour, "expected": GREY}
    scale = alt.Scale(domain=list(held), range=[colours[name] for name in held])
    return alt.Color("series:N", title=None, scale=scale, legend=series_legend())


def _objectives(colours: Mapping[str, str]) -> alt.Color:
    scale = alt.Scale(domain=[visible(name) for name in colours], range=list(colours.values()))
    return alt.Color("objective:N", title=None, scale=scale, legend=series_legend())


def _values(e: Estimate) -> tuple[float | None, float | None, float | None, int]:
    return e.value, e.low, e.high, e.n
