"""Charts of exact numbers: a frame in, an Altair chart out; nothing is computed here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import altair as alt
import polars as pl

from audit.errors import AuditError
from audit.report.tooltips import told

Chart: TypeAlias = alt.Chart | alt.LayerChart | alt.HConcatChart | alt.VConcatChart
_RATE = alt.X("rate:Q", title="success rate p", scale=alt.Scale(domain=[0, 1]))
_WIDTH, _HEIGHT = 420, 260


def factor_chart(frame: pl.DataFrame) -> alt.LayerChart:
    """Prompt-weight factor over the success rate, with the unbiased weight 1 as a rule.

    Parameters
    ----------
    frame : DataFrame
        Columns ``rate``, ``value`` (float) and ``curve`` (str, one line each).
    """
    rule = alt.Chart(pl.DataFrame({"value": [1.0]})).mark_rule(strokeDash=[4, 4], color="grey")
    unbiased = rule.encode(y="value:Q")
    return alt.layer(unbiased, _curves(frame, "weight of a prompt (leave-one-out = 1)"))


def zero_signal_chart(frame: pl.DataFrame) -> alt.Chart:
    """Share of groups whose rewards are all equal, over the success rate; columns as in factor_chart."""
    return _curves(frame, "groups without signal", percent=True)


def beta_chart(frame: pl.DataFrame) -> alt.Chart:
    """Effective KL coefficient over the success rate; columns as in factor_chart."""
    return _curves(frame, "effective beta")


def batch_chart(frame: pl.DataFrame) -> alt.Chart:
    """Share of the pull of each prompt of a mix; columns as in factor_chart."""
    return (
        alt.Chart(frame, width=_WIDTH, height=_HEIGHT)
        .mark_bar()
        .encode(
            x=alt.X("rate:O", title="success rate p"),
            y=alt.Y("value:Q", title="share of the pull", axis=alt.Axis(format="%")),
            xOffset=alt.XOffset("curve:N", sort=None),
            color=alt.Color("curve:N", title=None, sort=None),
            tooltip=told("curve:N", "rate:O", "value:Q"),
        )
    )


def nothing_to_draw(why: str) -> AuditError:
    """Return the error of a chart without a single point; ``why`` reads on with 'in this log'."""
    return AuditError(f"there is nothing to draw: {why} in this log.")


def save_chart(chart: Chart, out: Path) -> None:
    """Write a chart as .json (Vega-Lite), .svg, .png or a page that needs no network.

    Raises
    ------
    AuditError
        Anything but .json without vl-convert.
    """
    if out.suffix.lower() == ".json":
        out.write_text(chart.to_json(), encoding="utf-8")
        return
    if find_spec("vl_convert") is None:
        msg = (
            f"{out}: drawing a {out.suffix} needs the package vl-convert-python. Install it, or write a "
            ".json: the chart as Vega-Lite."
        )
        raise AuditError(msg)
    chart.save(str(out), **({"inline": True} if out.suffix.lower() == ".html" else {}))


def _curves(frame: pl.DataFrame, title: str, *, percent: bool = False) -> alt.Chart:
    axis = alt.Axis(format="%") if percent else alt.Axis()
    return (
        alt.Chart(frame, width=_WIDTH, height=_HEIGHT)
        .mark_line()
        .encode(
            x=_RATE,
            y=alt.Y("value:Q", title=title, axis=axis),
            color=alt.Color("curve:N", title=None, sort=None),
            tooltip=told("curve:N", "rate:Q", "value:Q"),
        )
    )
