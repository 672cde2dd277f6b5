"""Chart of where two objectives put their weight: shares of each part of the responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from audit.analyses.weight_shifts import Shift
from audit.report.charts import nothing_to_draw
from audit.report.curves_chart import PADDING, run_colour
from audit.report.format import percent, percent_estimate, visible
from audit.report.tooltips import told

_HEIGHT = 240
_PERCENT = " %"
_LETTERS = 48
"""More letters than this do not fit side by side below a chart."""


def shift_frame(shifts: Sequence[Shift], runs: tuple[str, str]) -> pl.DataFrame:
    """One row a part and objective: part, run, value, low, high, responses, moved, n."""
    rows = [
        {
            "part": shift.name,
            "run": visible(run),
            "value": share.value,
            "low": share.low,
            "high": share.high,
            "responses": percent(shift.responses, decimals=1),
            "moved": percent_estimate(shift.moved),
            "n": share.n,
        }
        for shift in shifts
        for run, share in zip(runs, (shift.a, shift.b), strict=True)
    ]
    schema = dict.fromkeys(("part", "run", "responses", "moved"), pl.String)
    numbers = dict.fromkeys(("value", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema={**schema, **numbers, "n": pl.Int64})


def shift_chart(
    shifts: Sequence[Shift], runs: tuple[str, str], colours: Mapping[str, str], title: str
) -> alt.LayerChart:
    """Two bars a part, one of each run's objective, with 95 % intervals.

    Parameters
    ----------
    runs : names of A and B
    title : what the parts are

    Raises
    ------
    AuditError
        There is no part.
    """
    frame = shift_frame(shifts, runs)
    if not len(frame):
        raise nothing_to_draw(f"no {title}")
    names = list(dict.fromkeys(frame["part"].to_list()))
    percents = all(name.endswith(_PERCENT) for name in names)
    angle = 0 if sum(map(len, names)) < _LETTERS else -40
    base = alt.Chart(frame).encode(
        x=alt.X(
            "part:N",
            title=f"{title},{_PERCENT}" if percents else title,
            sort=names,
            axis=alt.Axis(
                labelAngle=angle,
                labelOverlap=False,
                labelFontSize=10,
                labelExpr=f"replace(datum.label, '{_PERCENT}', '')",
            ),
        ),
        xOffset=alt.XOffset("run:N", sort=[visible(run) for run in runs]),
    )
    y = alt.Y("value:Q", title="share of the weight", axis=alt.Axis(format="%"))
    tooltip = told(
        alt.Tooltip("part:N", title=title),
        alt.Tooltip("run:N", title="objective of"),
        alt.Tooltip("value:Q", title="share", format=".1%"),
        alt.Tooltip("low:Q", format=".1%"),
        alt.Tooltip("high:Q", format=".1%"),
        alt.Tooltip("moved:N", title="B − A"),
        alt.Tooltip("responses:N", title="share of the responses"),
        alt.Tooltip("n:Q", format=","),
    )
    bars = base.mark_bar(cornerRadiusEnd=2).encode(y=y, color=run_colour(runs, colours), tooltip=tooltip)
    whiskers = base.mark_rule(strokeWidth=1.5, color="#888888").encode(
        y=alt.Y("low:Q", title="share of the weight"), y2="high:Q"
    )
    return alt.layer(bars, whiskers).properties(height=_HEIGHT, padding=PADDING)
