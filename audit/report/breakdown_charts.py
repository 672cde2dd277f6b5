"""Charts of the breakdowns: a result in, an Altair chart out; nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import altair as alt
import polars as pl

from audit.analyses.clipping import Clipping
from audit.analyses.kl_estimates import KLReport
from audit.analyses.mismatch import Mismatch
from audit.analyses.prompts import PromptBreakdown
from audit.analyses.rewards import RewardBreakdown
from audit.analyses.staleness import StalenessBreakdown
from audit.analyses.zero_groups import GroupBreakdown
from audit.report.charts import Chart, nothing_to_draw
from audit.report.format import visible
from audit.report.policy_charts import clipping_chart, kl_chart, mismatch_chart
from audit.report.tooltips import told
from audit.stats import Estimate

_WIDTH, _HEIGHT = 420, 260
Points = Sequence[tuple[str, str, Estimate | None]]
"""Place on the x axis, series, value with its interval."""
_SCHEMA = {"x": pl.String, "series": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}


@singledispatch
def chart_of_breakdown(result: object) -> Chart:
    """Draw what a breakdown shows over steps, success rates, components, lags or tokens.

    Raises
    ------
    AuditError
        The log holds nothing of the kind.
    """
    msg = f"there is no chart of a {type(result).__name__}."
    raise TypeError(msg)


chart_of_breakdown.register(Clipping, clipping_chart)
chart_of_breakdown.register(KLReport, kl_chart)
chart_of_breakdown.register(Mismatch, mismatch_chart)


@chart_of_breakdown.register
def zero_signal_over_steps(result: GroupBreakdown) -> alt.LayerChart:
    """Observed and predicted share of groups without signal, with intervals."""
    rows = [
        (_span(part.first_step, part.last_step), name, e)
        for part in result.by_step
        for name, e in (("observed", part.observed), ("predicted", part.predicted))
    ]
    return _points(rows, "steps", "groups without signal", percent=True)


@chart_of_breakdown.register
def factors_and_shares(result: PromptBreakdown) -> alt.HConcatChart:
    """Observed prompt-weight factors by success rate, and the Lorenz curves of the gradient."""
    factors = [
        (f"{100 * at.low:g}–{100 * at.high:g} %", factor.objective, at.observed)
        for factor in result.factors
        for at in factor.bins
    ]
    curves = [*result.shares, *([result.samples_share] if result.samples_share else [])]
    lines = [(visible(each.objective), x, y) for each in curves for x, y in each.lorenz]
    frame = pl.DataFrame(lines, schema={"series": pl.String, "x": pl.Float64, "y": pl.Float64}, orient="row")
    lorenz = (
        alt.Chart(frame, width=_HEIGHT, height=_HEIGHT)
        .mark_line()
        .encode(
            x=alt.X("x:Q", title="share of prompts, lightest first", axis=alt.Axis(format="%")),
            y=alt.Y("y:Q", title="share of the gradient", axis=alt.Axis(format="%")),
            color=alt.Color("series:N", title=None, sort=None),
            tooltip=told("series:N", "x:Q", "y:Q"),
        )
    )
    if not lines and not factors:
        raise nothing_to_draw("no objective could be measured")
    parts = [_points(factors, "success rate", "weight of a prompt")] if factors else []
    return alt.hconcat(*parts, *([lorenz] if lines else []))


@chart_of_breakdown.register
def component_shares(result: RewardBreakdown) -> alt.LayerChart:
    """Share of each component in the variance of the reward within groups."""
    shares = [] if result.signal is None else result.signal.shares
    rows = [(each.name, "share", each.share) for each in shares]
    return _points(rows, "component", "share of the variance within groups", percent=True)


@chart_of_breakdown.register
def lag_over_steps(result: StalenessBreakdown) -> alt.LayerChart:
    """Mean lag over steps, with intervals."""
    steps = [] if result.lag is None else result.lag.by_step
    rows = [(_span(each.first_step, each.last_step), "mean lag", each.mean) for each in steps]
    return _points(rows, "steps", "versions behind")


def _points(rows: Points, x: str, y: str, *, percent: bool = False) -> alt.LayerChart:
    held = [
        (visible(at), visible(series), e.value, e.low, e.high)
        for at, series, e in rows
        if e is not None and e.value is not None
    ]
    if not held:
        raise nothing_to_draw(f"no {y}")
    frame = pl.DataFrame(held, schema=_SCHEMA, orient="row")
    base = alt.Chart(frame, width=_WIDTH, height=_HEIGHT).encode(
        x=alt.X("x:O", title=x, sort=None),
        xOffset=alt.XOffset("series:N", sort=None),
        color=alt.Color("series:N", title=None, sort=None),
    )
    axis = alt.Axis(format="%") if percent else alt.Axis()
    tooltip = told("series:N", "x:O", "value:Q", "low:Q", "high:Q")
    points = base.mark_point(filled=True).encode(y=alt.Y("value:Q", title=y, axis=axis), tooltip=tooltip)
    return alt.layer(base.mark_rule().encode(y="low:Q", y2="high:Q"), points)


def _span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"
