"""The figures of docs/figures.md: frames of measured numbers in, charts out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt

from audit.report.charts import save_chart
from audit.report.figures_theme import Theme, themed
from audit.report.tooltips import told

if TYPE_CHECKING:
    import polars as pl

ENDINGS = (".png", ".svg", ".html")
_WIDTH, _HEIGHT = 300, 270
_SERIES = {
    **dict.fromkeys(("GRPO", "1/|o| per response", "GRPO, k3 in the loss"), 0),
    **dict.fromkeys(("RLOO", "RLOO, KL in the reward"), 1),
    **dict.fromkeys(("Dr. GRPO", "constant, no std (Dr. GRPO)"), 2),
    **dict.fromkeys(("constant, with std", "GRPO without std, k3 in the loss"), 3),
}
"""Place of a curve among the colours of a theme: one algorithm, one colour, in every panel."""
_RATE = alt.X("rate:Q", title="success rate p", scale=alt.Scale(domain=[0, 1]))


def silence_panel(curves: pl.DataFrame, prompts: pl.DataFrame, theme: Theme) -> alt.LayerChart:
    """Share of groups without signal over the success rate, with the prompts of the testbed as points.

    Parameters
    ----------
    curves, prompts : DataFrame
        Columns ``curve`` (one per group size), ``rate``, ``value``.
    """
    colour = _colour(curves, theme.ordered)
    inside = alt.Scale(domain=[0, 1.03], nice=False)
    y = alt.Y("value:Q", title="groups without signal", axis=alt.Axis(format="%"), scale=inside)
    lines = alt.Chart(curves).mark_line(strokeWidth=2.5).encode(x=_RATE, y=y, color=colour)
    points = (
        alt.Chart(prompts)
        .mark_point(size=46, filled=True, opacity=1.0, stroke=theme.ground, strokeWidth=1.0)
        .encode(x=_RATE, y=y, color=colour, tooltip=told("curve:N", "rate:Q", "value:Q"))
    )
    return _panel(lines + points, "No variation, no signal", "p^G + (1 − p)^G; points: the testbed's prompts")


def factor_panel(curves: pl.DataFrame, points: pl.DataFrame, theme: Theme) -> alt.LayerChart:
    """Prompt-weight factor: exact curves, and what was measured from sampled groups.

    Parameters
    ----------
    curves : DataFrame
        Columns ``curve`` (one per objective), ``rate``, ``value``.
    points : DataFrame
        The same, with ``low`` and ``high``.
    """
    colour = _colour(curves, theme.series)
    title = "weight of a prompt (unbiased = 1)"
    y = alt.Y("value:Q", title=title, scale=alt.Scale(domain=[0, 3.2], nice=False))
    lines = alt.Chart(curves).mark_line(strokeWidth=2.5).encode(x=_RATE, y=y, color=colour)
    whiskers = (
        alt.Chart(points)
        .mark_rule(strokeWidth=2)
        .encode(x=_RATE, y=alt.Y("low:Q", title=title), y2="high:Q", color=colour)
    )
    dots = (
        alt.Chart(points)
        .mark_point(size=46, filled=True, opacity=1.0, stroke=theme.ground, strokeWidth=1.0)
        .encode(x=_RATE, y=y, color=colour, tooltip=told("curve:N", "rate:Q", "value:Q", "low:Q", "high:Q"))
    )
    subtitle = "lines: exact, G = 8; points: sampled groups, 95 %"
    return _panel(lines + whiskers + dots, "The std reweights prompts", subtitle)


def length_panel(frame: pl.DataFrame, theme: Theme, title: str, subtitle: str) -> alt.LayerChart:
    """Mean length of correct and of wrong answers while training, with a band over seeds.

    Parameters
    ----------
    frame : DataFrame
        Columns ``curve`` (one per normaliser), ``side`` (correct, wrong), ``step``, ``mean``, ``low`` and
        ``high``.
    """
    dash = alt.StrokeDash(
        "side:N",
        title=None,
        sort=None,
        scale=alt.Scale(domain=["correct", "wrong"], range=[[1, 0], [6, 4]]),
        legend=alt.Legend(symbolStrokeColor=theme.text, symbolSize=400),
    )
    y = alt.Scale(domain=[1.8, 5.2], clamp=True)
    return _panel(_banded(frame, theme, "tokens", y, dash), title, subtitle)


def target_panel(frame: pl.DataFrame, theme: Theme, title: str, subtitle: str) -> alt.LayerChart:
    """KL to pi* while training; columns as in :func:`length_panel`, without ``side``."""
    top = max(0.93, 1.03 * float(frame["high"].max()))  # type: ignore[arg-type]
    scale = alt.Scale(domain=[0, top], nice=False)
    return _panel(_banded(frame, theme, "KL from pi to pi*, nats", scale, None), title, subtitle)


def figure(panels: list[alt.LayerChart], theme: Theme) -> Any:
    """Panels side by side, each with its own legend below."""
    joined = alt.hconcat(*panels, bounds="flush")
    return themed(joined.resolve_scale(color="independent", strokeDash="independent"), theme)


def save_figure(chart: Any, stem: Path, theme: Theme) -> list[Path]:
    """Write ``stem-theme.png``, ``.svg`` and a page without network; returns the files.

    Raises
    ------
    AuditError
        vl-convert is not installed.
    """
    written = []
    for ending in ENDINGS:
        out = stem.with_name(f"{stem.name}-{theme.name}{ending}")
        if ending == ".png":
            chart.save(str(out), scale_factor=2)
        else:
            save_chart(chart, out)
        if ending == ".html":
            ground = f"<style>body {{ background: {theme.ground}; }}</style></head>"
            page = out.read_text(encoding="utf-8").replace("</head>", ground, 1)
            out.write_text(page, encoding="utf-8")
        written.append(out)
    return written


def _banded(frame: pl.DataFrame, theme: Theme, title: str, scale: alt.Scale, dash: Any) -> alt.LayerChart:
    colour = _colour(frame, theme.series)
    x = alt.X("step:Q", title="optimiser steps")
    detail = [] if dash is None else [alt.Detail("side:N")]
    base = alt.Chart(frame).encode(x=x, color=colour, detail=detail)
    band = base.mark_area(opacity=0.22).encode(y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q")
    line = base.mark_line(strokeWidth=2.5).encode(y=alt.Y("mean:Q", title=title, scale=scale))
    return band + (line if dash is None else line.encode(strokeDash=dash))


def _colour(frame: pl.DataFrame, colours: tuple[str, ...]) -> alt.Color:
    names = frame["curve"].unique(maintain_order=True).to_list()
    chosen = [colours[_SERIES.get(name, place)] for place, name in enumerate(names)]
    return alt.Color("curve:N", title=None, scale=alt.Scale(domain=names, range=chosen), sort=None)


def _panel(chart: alt.LayerChart, title: str, subtitle: str) -> alt.LayerChart:
    # By the frame of the plot, not of its labels: headings stand over the axes.
    heading = alt.TitleParams(title, subtitle=subtitle, frame="group")
    return chart.properties(width=_WIDTH, height=_HEIGHT, title=heading)
