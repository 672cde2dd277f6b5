"""Charts of clipping, KL and mismatch: shares and trends with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from audit.analyses.bucket_shares import Bucket, Trend
from audit.analyses.clipping import Clipping
from audit.analyses.kl_estimates import KLReport
from audit.analyses.mismatch import Mismatch
from audit.report.charts import nothing_to_draw
from audit.report.text import clipping as clipping_text
from audit.report.text import mismatch as mismatch_text
from audit.report.tooltips import told

_WIDTH, _HEIGHT = 420, 200


def clipping_chart(result: Clipping) -> alt.VConcatChart:
    """Clip-zeroed share over steps and by each breakdown."""
    groups = {title: result.by.get(name, []) for name, title in clipping_text.TITLES.items()}
    return stacked({"clip-zeroed": result.steps}, groups, "clip-zeroed share", percent=True)


def kl_chart(result: KLReport) -> alt.VConcatChart:
    """KL estimates over steps, and the drift over inner updates, nats per token."""
    groups = {} if result.drift is None else {"drift by inner update": result.drift.by_update}
    return stacked(result.trends, groups, "nats per token")


def mismatch_chart(result: Mismatch) -> alt.VConcatChart:
    """Mean |log pi_old - log pi_sampler| over steps and by each breakdown, nats per token."""
    groups = {title: result.by.get(name, []) for name, title in mismatch_text.TITLES.items()}
    return stacked({"mismatch": result.steps}, groups, "mean |g|, nats per token")


def bucket_frame(buckets: Sequence[Bucket]) -> pl.DataFrame:
    """One row a bucket: place, name, value, low, high, n; null where a log gives no value."""
    columns = {"place": pl.Int64, "name": pl.String, "n": pl.Int64}
    columns |= dict.fromkeys(("value", "low", "high"), pl.Float64)
    rows = [
        {
            "place": place,
            "name": bucket.name,
            "n": bucket.value.n,
            "value": bucket.value.value,
            "low": bucket.value.low,
            "high": bucket.value.high,
        }
        for place, bucket in enumerate(buckets)
    ]
    return pl.DataFrame(rows, schema=columns)


def buckets_chart(
    buckets: Sequence[Bucket], title: str, value: str, *, percent: bool = False
) -> alt.LayerChart:
    """Points with their 95 % intervals, one a bucket, in the order given."""
    frame = bucket_frame(buckets)
    axis = alt.Axis(format="%") if percent else alt.Axis()
    x = alt.X("name:N", title=None, sort=frame["name"].to_list())
    chart = alt.Chart(frame, width=_WIDTH, height=_HEIGHT, title=title)
    bars = chart.mark_rule().encode(x=x, y=alt.Y("low:Q", title=value, axis=axis), y2="high:Q")
    points = chart.mark_point(filled=True, size=40).encode(
        x=x,
        y=alt.Y("value:Q", title=value, axis=axis),
        tooltip=told("name:N", "value:Q", "low:Q", "high:Q", "n:Q"),
    )
    return alt.layer(bars, points)


def trend_chart(trend: Trend, title: str, value: str, *, percent: bool = False) -> alt.LayerChart:
    """The same over bins of steps."""
    return buckets_chart(trend.points, f"{title}, over steps", value, percent=percent)


def stacked(
    trends: Mapping[str, Trend | None],
    groups: Mapping[str, Sequence[Bucket]],
    value: str,
    *,
    percent: bool = False,
) -> alt.VConcatChart:
    """One panel a trend and a breakdown, below each other; what has no more than one point is left out.

    Raises
    ------
    AuditError
        Nothing has.
    """
    panels = [
        trend_chart(trend, title, value, percent=percent)
        for title, trend in trends.items()
        if trend is not None and trend.points
    ]
    panels += [
        buckets_chart(buckets, title, value, percent=percent)
        for title, buckets in groups.items()
        if len(buckets) > 1
    ]
    if not panels:
        raise nothing_to_draw(f"no {value}")
    return alt.vconcat(*panels)
