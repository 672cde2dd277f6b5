"""Chart of one metric over steps, a line with its band for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from audit.analyses.metric_curves import Curve
from audit.report.charts import nothing_to_draw
from audit.report.format import visible
from audit.report.tooltips import told

HEIGHT = 200
PADDING = {"left": 0, "right": 5, "top": 5, "bottom": 5}
_GREY = "#888888"
_ROOM = 0.6
"""How far beyond the range of the values bands are shown, in ranges: a wide one must not flatten the rest."""
Span = tuple[int, int]


def curve_frame(curves: Sequence[tuple[str, Curve]]) -> pl.DataFrame:
    """One row a point: run, step (middle of its bin), steps, value, low, high, n."""
    schema = {"run": pl.String, "step": pl.Float64, "steps": pl.String, "n": pl.Int64}
    schema |= dict.fromkeys(("value", "low", "high"), pl.Float64)
    rows = [
        {
            "run": visible(run),
            "step": (point.first_step + point.last_step) / 2,
            "steps": span(point.first_step, point.last_step),
            "value": point.value.value,
            "low": point.value.low,
            "high": point.value.high,
            "n": point.value.n,
        }
        for run, curve in curves
        for point in curve.points
    ]
    return pl.DataFrame(rows, schema=schema)


def curve_chart(
    curves: Sequence[tuple[str, Curve]], colours: Mapping[str, str], *, parted: Span | None = None
) -> alt.LayerChart:
    """Draw a metric in several runs.

    Parameters
    ----------
    curves : (run, curve) of each run
    colours : mapping of run to colour
    parted : first and last step of the bin in which two runs part, optional
        Shaded from there on.

    Raises
    ------
    AuditError
        No run has a point.
    """
    frame = curve_frame(curves)
    if not len(frame):
        raise nothing_to_draw("no such metric over steps")
    unit = curves[0][1].unit
    axis = alt.Axis(format="%") if unit.startswith("of ") else alt.Axis()
    scale = alt.Scale(domain=y_domain(frame), nice=False, zero=False)
    y = alt.Y("value:Q", title=unit or None, axis=axis, scale=scale)
    base = alt.Chart(frame).encode(
        x=alt.X("step:Q", title=None, scale=alt.Scale(nice=False), axis=alt.Axis(tickMinStep=1, tickCount=6)),
        color=run_colour([run for run, _ in curves], colours),
    )
    band = base.mark_area(opacity=0.16, clip=True).encode(
        y=alt.Y("low:Q", title=unit or None, axis=axis, scale=scale), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2).encode(y=y)
    point = base.mark_point(filled=True, size=60, opacity=0.001).encode(
        y=y,
        tooltip=told(
            alt.Tooltip("run:N"),
            alt.Tooltip("steps:N"),
            *(alt.Tooltip(f"{name}:Q", format=".3~g") for name in ("value", "low", "high")),
            alt.Tooltip("n:Q", format=","),
        ),
    )
    layers = [band, line, point]
    if parted is not None:
        layers.insert(0, _from(parted, float(frame["step"].max())))  # type: ignore[arg-type]
    return alt.layer(*layers).properties(height=HEIGHT, padding=PADDING)


def y_domain(frame: pl.DataFrame) -> list[float]:
    """What is shown of the y axis: every value, and of the bands what is not far beyond them."""
    values = frame["value"].to_list()
    least, most = min(values), max(values)
    room = _ROOM * (most - least) or 0.1 * abs(most) or 1.0
    lows = [x for x in frame["low"].to_list() if x is not None] or [least]
    highs = [x for x in frame["high"].to_list() if x is not None] or [most]
    return [max(min(*lows, least), least - room), min(max(*highs, most), most + room)]


def run_colour(runs: Sequence[str], colours: Mapping[str, str], *, legend: bool = False) -> alt.Color:
    """Colour by run; the page names the colours once, so that charts need no legend of their own."""
    shown = list(dict.fromkeys(runs))
    scale = alt.Scale(domain=[visible(run) for run in shown], range=[colours[run] for run in shown])
    return alt.Color("run:N", title=None, scale=scale, legend=alt.Legend() if legend else None)


def span(first: int, last: int) -> str:
    """Steps of a bin, as ``61–72``."""
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def _from(parted: Span, last: float) -> alt.LayerChart:
    """Grey ground from where the runs part, with a rule at its edge."""
    at = pl.DataFrame({"from": [float(parted[0])], "to": [max(last, float(parted[1]))]})
    ground = alt.Chart(at).mark_rect(opacity=0.12, color=_GREY).encode(x="from:Q", x2="to:Q")
    edge = alt.Chart(at).mark_rule(strokeDash=[4, 3], color=_GREY).encode(x="from:Q")
    return alt.layer(ground, edge)
