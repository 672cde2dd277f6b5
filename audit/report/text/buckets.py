"""Tables of buckets and trends, as several analyses show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from audit.analyses.bucket_shares import Bucket, Trend
from audit.report import format as fmt
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, STRONG, Page, styled
from audit.stats import Estimate

Show = Callable[[Estimate], str]
INTERVALS = "Intervals: 95 %, resampling prompts; n: responses."


def add_buckets(
    page: Page,
    title: str,
    buckets: Sequence[Bucket],
    show: Show,
    whole: Estimate | None = None,
    *,
    value: str = "share",
) -> None:
    """Lay out buckets; those whose interval excludes the value of the whole are strong."""
    if not buckets:
        return
    page.gap()
    rows = Rows(title, value, "of", "n", right=(2, 3))
    for bucket in buckets:
        apart = whole is not None and whole.value is not None and bucket.value.excludes(whole.value)
        shown = Text(show(bucket.value), STRONG if apart else "")
        rows.add(styled(bucket.name, ""), shown, fmt.count(bucket.tokens), fmt.count(bucket.value.n))
    rows.add_to(page)


def trend_in_words(trend: Trend, show: Show) -> str:
    """Say where a quantity starts and ends, and whether it moves beyond noise."""
    held = [point for point in trend.points if point.value.value is not None]
    if not held:
        return "no step has a value"
    first, last = held[0], held[-1]
    said = f"step {first.name}: {show(first.value)}"
    if last is not first:
        said += f"; step {last.name}: {show(last.value)}"
    slope = trend.slope
    if slope.value is None or slope.low is None:
        return said
    if not slope.excludes(0.0):
        return f"{said}; no trend beyond noise"
    return f"{said}; {'rises' if slope.value > 0 else 'falls'} over the run"


def add_doubts(page: Page, doubts: Sequence[str]) -> None:
    """List what was assumed or left out."""
    if not doubts:
        return
    page.heading("Doubts")
    for doubt in doubts:
        page.bullet((doubt, DOUBT))
