"""Charts of shares and trends with their intervals, for clipping, KL and mismatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from audit.analyses.bucket_shares import Bucket, Trend

_WIDTH, _HEIGHT = 420, 200


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
        tooltip=["name:N", "value:Q", "low:Q", "high:Q", "n:Q"],
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
    """One panel a trend and a breakdown, below each other; what has no more than one point is left out."""
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
    return alt.vconcat(*panels)
