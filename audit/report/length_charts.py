"""Charts of length bias: frames of its numbers, and Altair charts of them; nothing is computed here."""

from __future__ import annotations

import altair as alt
import polars as pl

from audit.analyses.length import LengthBias
from audit.analyses.length_rows import SIDES
from audit.report.length_words import alike, measured_on
from audit.report.tooltips import told

_WIDTH = 420


def push_frame(bias: LengthBias) -> pl.DataFrame:
    """Push under each objective: objective, side, value, low, high, n; one row for those that do the same."""
    columns = {"objective": pl.String, "side": pl.String, "n": pl.Int64}
    columns |= dict.fromkeys(("value", "low", "high"), pl.Float64)
    rows = [
        {
            "objective": _named(names) + measured_on(entry),
            "side": side,
            "n": e.n,
            "value": e.value,
            "low": e.low,
            "high": e.high,
        }
        for names, entry in alike(bias.per_objective)
        if entry.pressure is not None
        for side, e in (("correct", entry.pressure.correct), ("wrong", entry.pressure.wrong))
    ]
    return pl.DataFrame(rows, schema=columns)


def push_chart(bias: LengthBias) -> alt.LayerChart:
    """Push of every objective on correct and on wrong answers, with 95 % intervals and a rule at 0."""
    frame = push_frame(bias)
    title = f"push, {bias.unit} per unit of mean |weight|"
    y = alt.Y("objective:N", title=None, sort=frame["objective"].unique(maintain_order=True).to_list())
    colour = alt.Color("side:N", title=None, sort=None)
    base = alt.Chart(frame, width=_WIDTH).encode(y=y, color=colour, yOffset=alt.YOffset("side:N", sort=None))
    whiskers = base.mark_rule().encode(x=alt.X("low:Q", title=title), x2="high:Q")
    tooltip = told("objective:N", "side:N", "value:Q", "low:Q", "high:Q", "n:Q")
    points = base.mark_point(filled=True, size=40, opacity=1.0).encode(
        x=alt.X("value:Q", title=title), tooltip=tooltip
    )
    zero = alt.Chart(pl.DataFrame({"value": [0.0]})).mark_rule(strokeDash=[4, 4], color="grey")
    return alt.layer(zero.encode(x="value:Q"), whiskers, points)


def drift_frame(bias: LengthBias) -> pl.DataFrame:
    """Curves over the run: side, step, curve (push, length), value."""
    schema = {"side": pl.String, "step": pl.Float64, "curve": pl.String, "value": pl.Float64}
    if bias.push_and_drift is None:
        return pl.DataFrame(schema=schema)
    rows = [
        {"side": side, "step": step, "curve": curve, "value": value}
        for side in SIDES
        for both in [getattr(bias.push_and_drift, side)]
        for curve, values in (("cumulative push", both.cumulative), ("length", both.observed))
        for step, value in zip(both.step, values, strict=True)
    ]
    return pl.DataFrame(rows, schema=schema)


def drift_chart(bias: LengthBias) -> alt.FacetChart:
    """Cumulative push and observed length of each side over steps; every panel has its own scale.

    The scale between the two is unknown: only sign and shape can be compared.
    """
    return (
        alt.Chart(drift_frame(bias), width=180, height=120)
        .mark_line(point=True)
        .encode(
            x=alt.X("step:Q", title="step"),
            y=alt.Y("value:Q", title=None),
            tooltip=told("side:N", "curve:N", "step:Q", "value:Q"),
        )
        .facet(
            row=alt.Row("curve:N", title=None, sort=None), column=alt.Column("side:N", title=None, sort=None)
        )
        .resolve_scale(y="independent")
    )


def _named(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} + {len(names) - 1} more"
