"""Charts of length by correctness that fill what holds them; a side has one colour everywhere."""

from __future__ import annotations

import altair as alt
import polars as pl

from audit.analyses.length import LengthBias
from audit.analyses.length_course import LengthCourses
from audit.analyses.length_ecdf import LengthDistributions, Side
from audit.errors import AuditError
from audit.report.charts import nothing_to_draw
from audit.report.colours import CORRECT, WRONG
from audit.report.curves_chart import PADDING
from audit.report.length_charts import drift_frame, push_frame
from audit.report.length_words import no_push
from audit.report.panels import GREY, layered, series_legend, share_axis, steps_axis
from audit.report.tooltips import told

HEIGHT = 260
COLOURS = {"correct": CORRECT, "wrong": WRONG}
_ROW = 26
_THIRDS = {"early": ([2, 3], 0.55), "middle": ([7, 3], 0.8), "late": ([1, 0], 1.0)}
"""Dashes and strength of a line: the later, the more solid."""


def side_colour(colours: dict[str, str] = COLOURS) -> alt.Color:
    """Green correct, orange wrong."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color("side:N", title=None, scale=scale, legend=series_legend())


def push_panel(bias: LengthBias) -> alt.LayerChart:
    """Draw the cumulative push of both sides over steps, since the first bin.

    Raises
    ------
    AuditError
        It could not be measured; the message says what the log lacks.
    """
    frame = _curve(bias, "cumulative push")
    if not len(frame):
        raise AuditError(no_push(bias))
    return _over_steps(frame, "push, of unknown scale", COLOURS)


def drift_panel(bias: LengthBias) -> alt.LayerChart:
    """Draw the change of length that the push was held against, since the first bin.

    Raises
    ------
    AuditError
        It was held against none.
    """
    frame = _curve(bias, "length")
    if not len(frame):
        msg = f"{no_push(bias)} The page Length of the dashboard draws lengths without one."
        raise AuditError(msg)
    return _over_steps(frame, f"change of length, {bias.unit}", COLOURS)


def _curve(bias: LengthBias, curve: str) -> pl.DataFrame:
    of_sides = pl.col("side").is_in(list(COLOURS))
    return drift_frame(bias).filter(pl.col("curve") == curve, of_sides).drop_nulls("value")


def lengths_panel(result: LengthCourses) -> alt.LayerChart:
    """Draw how lengths moved since the first bin: both sides, or all where the log does not tell them apart.

    Raises
    ------
    AuditError
        No side has a course.
    """
    held = [each for each in result.courses if each.side in COLOURS] if result.absolute else []
    held = held or [each for each in result.courses if each.side == "all"]
    rows = [
        (each.side, step, change, each.n)
        for each in held
        for step, change in zip(each.step, each.change, strict=True)
    ]
    if not rows:
        raise nothing_to_draw("no steps that prompts link, for responses of known length,")
    schema = {"side": pl.String, "step": pl.Float64, "value": pl.Float64, "n": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return _over_steps(frame, f"change of length, {result.unit}", COLOURS | {"all": GREY}, "n:Q")


def _over_steps(frame: pl.DataFrame, value: str, colours: dict[str, str], *more: str) -> alt.LayerChart:
    shown = {side: colour for side, colour in colours.items() if side in set(frame["side"])}
    zero = alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(strokeDash=[4, 4], color=GREY)
    lines = (
        alt.Chart(frame, height=HEIGHT)
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=30, filled=True))
        .encode(
            x=steps_axis(),
            y=alt.Y("value:Q", title=value, axis=share_axis(percent=False)),
            color=side_colour(shown),
            tooltip=told("side:N", "step:Q", "value:Q", *more),
        )
    )
    return layered(zero.encode(y="zero:Q"), lines)


def pushes_panel(bias: LengthBias) -> alt.LayerChart:
    """Push of every objective on correct and on wrong answers, with 95 % intervals and a rule at 0.

    Raises
    ------
    AuditError
        None could be measured.
    """
    frame = push_frame(bias).drop_nulls("value")
    if not len(frame):
        raise nothing_to_draw("no push of any objective")
    names = frame["objective"].unique(maintain_order=True).to_list()
    title = f"push, {bias.unit} per unit of mean |weight|"
    base = alt.Chart(frame, height=_ROW * len(names) + 60).encode(
        y=alt.Y("objective:N", title=None, sort=names, axis=alt.Axis(grid=True)),
        yOffset=alt.YOffset("side:N", sort=list(COLOURS)),
        color=side_colour(),
    )
    ends = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        x=alt.X("value:Q", title=title),
        tooltip=told("objective:N", "side:N", "value:Q", "low:Q", "high:Q", "n:Q"),
    )
    zero = alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(strokeDash=[4, 4], color="grey")
    return layered(zero.encode(x="zero:Q"), ends, points)


def ecdf_panel(result: LengthDistributions, side: Side) -> alt.Chart:
    """Share of the responses of one side that are no longer than a length, a line for each third of the run.

    Raises
    ------
    AuditError
        There is no such response.
    """
    rows = [
        (each.third, f"{each.first_step:,}–{each.last_step:,}", each.n, length, level)
        for each in result.curves
        if each.side == side
        # A distribution begins at 0, right below its least length.
        for length, level in [(each.length[0], 0.0), *zip(each.length, each.level, strict=True)]
    ]
    if not rows:
        raise nothing_to_draw(f"no {side} response of known length and step")
    schema = {
        "third": pl.String,
        "steps": pl.String,
        "n": pl.Int64,
        "length": pl.Float64,
        "level": pl.Float64,
    }
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    thirds = frame["third"].unique(maintain_order=True).to_list()
    domain = [min(min(c.length) for c in result.curves), max(max(c.length) for c in result.curves)]
    return (
        alt.Chart(frame, height=HEIGHT, padding=PADDING)
        .mark_line(strokeWidth=2, interpolate="step-after", color=COLOURS[side])
        .encode(
            x=alt.X("length:Q", title=f"length, {result.unit}", scale=alt.Scale(domain=domain, nice=True)),
            y=alt.Y("level:Q", title=f"{side} responses no longer", axis=share_axis(percent=True)),
            strokeDash=alt.StrokeDash(
                "third:N",
                title=None,
                scale=alt.Scale(domain=thirds, range=[_THIRDS[third][0] for third in thirds]),
                legend=alt.Legend(orient="top", symbolStrokeColor=COLOURS[side], columns=3),
            ),
            opacity=alt.Opacity(
                "third:N",
                scale=alt.Scale(domain=thirds, range=[_THIRDS[third][1] for third in thirds]),
                legend=None,
            ),
            tooltip=told("third:N", "steps:N", "length:Q", alt.Tooltip("level:Q", format=".1%"), "n:Q"),
        )
    )
