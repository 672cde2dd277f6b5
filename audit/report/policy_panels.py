"""Charts of clipping, KL and mismatch that fill what holds them."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from audit.analyses.clip_curve import ClipCurve
from audit.analyses.effective_beta import EffectiveBeta
from audit.analyses.kl_estimates import KLReport
from audit.report.charts import nothing_to_draw
from audit.report.panels import (
    GREY,
    HEIGHT,
    from_zero,
    layered,
    middle,
    series_legend,
    share_axis,
    steps_axis,
)
from audit.report.policy_charts import bucket_frame
from audit.report.tooltips import told


def epsilon_panel(result: ClipCurve, colour: str) -> alt.LayerChart:
    """Clip-zeroed share over the half-width of the band, with the run's own widths as rules.

    Raises
    ------
    AuditError
        No width could be measured.
    """
    rows = [
        (each.epsilon, each.share.value, each.share.low, each.share.high, each.share.n)
        for each in result.points
        if each.share.value is not None
    ]
    if not rows:
        raise nothing_to_draw("no clip-zeroed share")
    schema = {**dict.fromkeys(("epsilon", "value", "low", "high"), pl.Float64), "n": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    least, most = result.points[0].epsilon, result.points[-1].epsilon
    x = alt.X(
        "epsilon:Q",
        title="epsilon",
        scale=alt.Scale(type="log", domain=[least, most]),
        axis=alt.Axis(format="~g", tickCount=6),
    )
    base = alt.Chart(frame, height=HEIGHT).encode(x=x)
    title = "clip-zeroed share"
    y = alt.Y("value:Q", title=title, axis=share_axis(percent=True))
    band = base.mark_area(opacity=0.18, color=colour).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    line = base.mark_line(
        color=colour, strokeWidth=2, point=alt.OverlayMarkDef(size=45, filled=True, color=colour)
    ).encode(y=y, tooltip=told("epsilon:Q", "value:Q", "low:Q", "high:Q", "n:Q"))
    own = {
        name: at
        for name, at in (("epsilon_low", result.own_low), ("epsilon_high", result.own_high))
        if at is not None and least <= at <= most
    }
    rules = alt.Chart(
        pl.DataFrame(
            {"epsilon": list(own.values()), "of": list(own)}, schema={"epsilon": pl.Float64, "of": pl.String}
        )
    )
    return layered(
        band,
        line,
        rules.mark_rule(strokeDash=[4, 4], color=GREY).encode(x=x, tooltip=told("of:N", "epsilon:Q")),
    )


def kl_panel(
    result: KLReport, names: Sequence[str], titles: Sequence[str], colours: Sequence[str]
) -> alt.LayerChart:
    """Several trends of a KL in one chart, nats per token, each with its 95 % band.

    Parameters
    ----------
    names : keys of ``result.trends``
    titles, colours : of each of them

    Raises
    ------
    AuditError
        None of them was measured.
    """
    frames = [
        bucket_frame(result.trends[name].points).with_columns(series=pl.lit(title))
        for name, title in zip(names, titles, strict=True)
        if name in result.trends
    ]
    frame = pl.concat(frames).drop_nulls("value") if frames else pl.DataFrame()
    if not len(frame):
        raise nothing_to_draw("no KL over steps")
    frame = frame.with_columns(step=pl.Series([middle(name) for name in frame["name"]], dtype=pl.Float64))
    held = frame["series"].unique(maintain_order=True).to_list()
    range_ = [colour for title, colour in zip(titles, colours, strict=True) if title in held]
    legend = series_legend() if len(held) > 1 else None
    base = alt.Chart(frame, height=HEIGHT).encode(
        x=steps_axis(),
        color=alt.Color("series:N", title=None, scale=alt.Scale(domain=held, range=range_), legend=legend),
    )
    title = "nats per token"
    scale = from_zero(frame)
    band = base.mark_area(opacity=0.18, clip=True).encode(
        y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=35, filled=True)).encode(
        y=alt.Y("value:Q", title=title, axis=share_axis(percent=False), scale=scale),
        tooltip=told("series:N", "name:N", "value:Q", "low:Q", "high:Q", "n:Q"),
    )
    return layered(band, line)


def beta_panel(by_rate: Sequence[EffectiveBeta], colour: str, coefficient: float | None) -> alt.LayerChart:
    """Weight of the KL next to the reward by success rate, exact, with the coefficient itself as a rule.

    Raises
    ------
    AuditError
        There is none.
    """
    rows = [(at.rate, at.beta) for at in by_rate if at.beta is not None]
    if not rows:
        raise nothing_to_draw("no effective beta")
    frame = pl.DataFrame(rows, schema={"rate": pl.Float64, "value": pl.Float64}, orient="row")
    x = alt.X("rate:Q", title="success rate p", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="~%"))
    y = alt.Y("value:Q", title="effective beta", scale=alt.Scale(zero=True))
    line = (
        alt.Chart(frame, height=HEIGHT)
        .mark_line(color=colour, strokeWidth=2, point=alt.OverlayMarkDef(size=35, filled=True, color=colour))
        .encode(x=x, y=y, tooltip=told("rate:Q", "value:Q"))
    )
    if coefficient is None:
        return layered(line)
    rule = alt.Chart(pl.DataFrame({"value": [coefficient]})).mark_rule(strokeDash=[4, 4], color=GREY)
    return layered(rule.encode(y=y), line)
