"""Waterfall of what parts the weights of two objectives: the parts sum to the distance."""

from __future__ import annotations

import altair as alt
import polars as pl

from audit.analyses.effect import ObjectiveEffect
from audit.report.charts import nothing_to_draw
from audit.report.curves_chart import PADDING
from audit.report.format import estimate, number, percent, percent_estimate
from audit.report.tooltips import told

WHOLE = "all of them"
_PART, _BACK, _WHOLE = "#64748B", "#B4A5A0", "#A3A3A3"
INK = "#808080"
_ROW = 34


def waterfall_frame(effect: ObjectiveEffect) -> pl.DataFrame:
    """One row a part and one for the whole.

    Columns: part, kind (part, back, whole), start, end, low and high (ends of the interval of the bar's
    end), reach (the largest of these), change, distance, share, label, n.
    """
    rows, start = [], 0.0
    for part in effect.parts:
        value = part.distance.value
        if value is None:
            continue
        rows.append(
            {
                "part": part.part,
                "kind": "part" if value >= 0 else "back",
                "start": start,
                "end": start + value,
                "low": None if part.distance.low is None else start + part.distance.low,
                "high": None if part.distance.high is None else start + part.distance.high,
                "change": part.change,
                "distance": estimate(part.distance),
                "share": percent_estimate(part.share),
                "label": percent(part.share.value),
                "n": part.distance.n,
            }
        )
        start += value
    whole = effect.distance
    if whole.value is not None:
        rows.append(
            {
                "part": WHOLE,
                "kind": "whole",
                "start": 0.0,
                "end": whole.value,
                "low": whole.low,
                "high": whole.high,
                "change": "",
                "distance": estimate(whole),
                "share": "",
                "label": number(whole.value),
                "n": whole.n,
            }
        )
    for row in rows:
        row["reach"] = max(row[name] for name in ("start", "end", "low", "high") if row[name] is not None)  # type: ignore[type-var]
    texts = ("part", "kind", "change", "distance", "share", "label")
    numbers = ("start", "end", "low", "high", "reach")
    schema = dict.fromkeys(texts, pl.String) | dict.fromkeys(numbers, pl.Float64)
    return pl.DataFrame(rows, schema={**schema, "n": pl.Int64})


def waterfall_chart(effect: ObjectiveEffect, ink: str = INK) -> alt.LayerChart:
    """Bars that begin where the one before ends, with 95 % intervals; the last is the whole distance.

    Parameters
    ----------
    ink : str
        Colour of the intervals and of the numbers beside them, to be read on the page that holds the chart.

    Raises
    ------
    AuditError
        The weights have no distance.
    """
    frame = waterfall_frame(effect)
    if not len(frame):
        raise nothing_to_draw("no distance between the two objectives' weights")
    names = frame["part"].to_list()
    left, right = min(0.0, _least(frame)), max(frame["reach"].to_list())
    title = "1 − cosine of the token weights"
    colour = alt.Scale(domain=["part", "back", "whole"], range=[_PART, _BACK, _WHOLE])
    base = alt.Chart(frame).encode(
        y=alt.Y(
            "part:N",
            title=None,
            sort=names,
            axis=alt.Axis(labelLimit=180, labelOverlap=False, ticks=False, domain=False),
        ),
        tooltip=told("part:N", "change:N", "distance:N", "share:N", alt.Tooltip("n:Q", format=",")),
    )
    bars = base.mark_bar(height=18, cornerRadius=2).encode(
        x=alt.X(
            "start:Q", title=title, scale=alt.Scale(domain=[left, 1.15 * right]), axis=alt.Axis(tickCount=5)
        ),
        x2="end:Q",
        color=alt.Color("kind:N", scale=colour, legend=None),
    )
    whiskers = base.mark_rule(strokeWidth=1.5, color=ink).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    ends = base.mark_tick(thickness=1.5, height=8, color=ink)
    label = base.mark_text(align="left", dx=6, fontSize=11, color=ink).encode(
        x=alt.X("reach:Q", title=title), text="label:N"
    )
    return alt.layer(bars, whiskers, ends.encode(x="low:Q"), ends.encode(x="high:Q"), label).properties(
        height=_ROW * len(names) + 70, padding=PADDING
    )


def _least(frame: pl.DataFrame) -> float:
    """Where the leftmost bar or whisker ends."""
    ends = [value for name in ("start", "end", "low") for value in frame[name].to_list() if value is not None]
    return float(min(ends))
