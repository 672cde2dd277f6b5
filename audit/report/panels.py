"""Small charts of one quantity that fill what holds them: over steps, and by part."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from audit.analyses.bucket_shares import Bucket, Trend
from audit.report.charts import nothing_to_draw
from audit.report.curves_chart import PADDING, y_domain
from audit.report.format import visible
from audit.report.policy_charts import bucket_frame
from audit.report.tooltips import told

HEIGHT = 220
GREY = "#8A8F98"
"""Of what is expected, or stands beside what a run did."""
_ROW, _AXES = 24, 95
"""Pixels of a part, and of what stands below them."""


def trend_panel(
    trend: Trend | None, colour: str, value: str, *, percent: bool = False, height: int = HEIGHT
) -> alt.LayerChart:
    """Draw a quantity over bins of steps: a line with its 95 % band.

    Raises
    ------
    AuditError
        It has no point.
    """
    frame = pl.DataFrame() if trend is None else bucket_frame(trend.points).drop_nulls("value")
    if not len(frame):
        raise nothing_to_draw(f"no {value} over steps")
    frame = frame.with_columns(step=pl.Series([middle(name) for name in frame["name"]], dtype=pl.Float64))
    base = alt.Chart(frame, height=height).encode(x=steps_axis())
    scale = from_zero(frame)
    y = alt.Y("value:Q", title=value, axis=share_axis(percent), scale=scale)
    band = base.mark_area(opacity=0.18, color=colour, clip=True).encode(
        y=alt.Y("low:Q", title=value, scale=scale), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, color=colour).encode(y=y)
    points = base.mark_point(filled=True, size=35, color=colour, opacity=1).encode(
        y=y, tooltip=told("name:N", "value:Q", "low:Q", "high:Q", "n:Q")
    )
    return layered(band, line, points)


def parts_panel(
    buckets: Sequence[Bucket],
    colour: str,
    value: str,
    *,
    percent: bool = False,
    whole: float | None = None,
    height: int = 0,
) -> alt.LayerChart:
    """Draw a quantity by part: points with their 95 % intervals, in the order given.

    Parameters
    ----------
    whole : float, optional
        The same of everything, as a dashed rule.
    height : int
        At least; parts take what they need.

    Raises
    ------
    AuditError
        No part has a value.
    """
    frame = bucket_frame(buckets).drop_nulls("value")
    if not len(frame):
        raise nothing_to_draw(f"no {value} by part")
    frame = frame.with_columns(pl.col("name").map_elements(visible, return_dtype=pl.String))
    axis = alt.Axis(labelLimit=150, labelOverlap=False, labelFlush=False)
    base = alt.Chart(frame, height=max(parts_height(len(frame)), height)).encode(
        y=alt.Y("name:N", title=None, sort=frame["name"].to_list(), axis=axis)
    )
    ends = base.mark_rule(color=colour, strokeWidth=1.5).encode(
        x=alt.X("low:Q", title=value, axis=share_axis(percent)), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=55, color=colour, opacity=1).encode(
        x=alt.X("value:Q", title=value, axis=share_axis(percent), scale=alt.Scale(zero=True)),
        tooltip=told("name:N", "value:Q", "low:Q", "high:Q", "n:Q"),
    )
    if whole is None:
        return layered(ends, points)
    rule = alt.Chart(pl.DataFrame({"whole": [whole]})).mark_rule(strokeDash=[4, 4], color=GREY)
    return layered(rule.encode(x=alt.X("whole:Q", title=value)), ends, points)


def parts_height(parts: int) -> int:
    """Pixels that a chart of so many parts takes."""
    return _ROW * parts + _AXES


def layered(*charts: alt.Chart) -> alt.LayerChart:
    """Lay charts over each other, close to the edges of what holds them."""
    return alt.layer(*charts).properties(padding=PADDING)


def from_zero(frame: pl.DataFrame) -> alt.Scale:
    """What is shown of the y axis: 0, every value, and of bands what is not far beyond them."""
    least, most = y_domain(frame)
    return alt.Scale(domain=[min(least, 0.0), max(most, 0.0)], nice=True)


def series_legend() -> alt.Legend:
    """Name series above a chart; as lines, for a band would be too faint. More than three take more rows."""
    return alt.Legend(
        orient="top", columns=3, labelLimit=130, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3
    )


def share_axis(percent: bool) -> alt.Axis:
    """Few ticks; per cent where the quantity is a share."""
    return alt.Axis(format="~%", tickCount=5) if percent else alt.Axis(tickCount=5)


def steps_axis() -> alt.X:
    """Steps along the bottom, whole numbers alone."""
    return alt.X(
        "step:Q",
        title="step",
        scale=alt.Scale(nice=False, zero=False),
        axis=alt.Axis(tickMinStep=1, tickCount=6, format=",d"),
    )


def middle(name: str) -> float:
    """Middle of the bin of steps that is called so, as ``61–72``; steps are never negative."""
    first, _, last = name.partition("–")
    return (float(first) + float(last or first)) / 2
