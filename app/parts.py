"""What pages share: a verdict, numbers with their interval and n, charts, and what was skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.report import format as fmt
from audit.report.charts import Chart
from audit.report.words import skipped_in_words
from audit.stats import Estimate


def or_stop(result: Any) -> Any:
    """Return the result of an analysis; where it is an error, say it and stop the page."""
    if isinstance(result, str):
        st.warning("This log cannot answer that:")
        st.text(fmt.visible(result))
        st.stop()
    return result


def verdict(text: str) -> None:
    """Show what an analysis concludes, in its own words; text of a log in it stays text."""
    with st.container(border=True):
        st.text(fmt.visible(text))


def numbers(entries: Mapping[str, Estimate | None], *, percent: bool = False) -> None:
    """Show estimates side by side: value, 95 % interval, n."""
    held = [(name, e) for name, e in entries.items() if e is not None and e.value is not None]
    if not held:
        return
    whole = fmt.percent_estimate if percent else fmt.estimate
    for column, (name, e) in zip(st.columns(len(held)), held, strict=True):
        with column:
            decimals = fmt.decimals_for(e.value, e.low, e.high)
            one = fmt.percent(e.value, decimals=2) if percent else fmt.number(e.value, decimals=decimals)
            st.metric(name, one)
            st.caption(f"{whole(e)}, n = {fmt.count(e.n)}")


def chart(make: Callable[[], Chart], alt: str, key: str) -> None:
    """Draw a chart, or say why there is nothing to draw.

    Parameters
    ----------
    make : callable
        Called without arguments; a pure function of a result.
    alt : str
        What the chart shows, for those who hear the page.
    """
    try:
        made = make()
    except AuditError as error:
        st.info(fmt.visible(error))
        return
    st.altair_chart(made, key=key, alt=alt)


def table(rows: Sequence[Mapping[str, Any]], key: str, **options: Any) -> Any:
    """Show rows as a table; text of a log is made visible first."""
    if not rows:
        return None
    shown = {
        name: [fmt.visible(row[name]) if isinstance(row[name], str) else row[name] for row in rows]
        for name in rows[0]
    }
    return st.dataframe(shown, hide_index=True, key=key, lazy=False, **options)


def estimates(
    rows: Iterable[tuple[str, Estimate | None]], key: str, *, percent: bool = False, sign: bool = False
) -> None:
    """Show a table of estimates: name, value with its interval, n."""
    shown = fmt.percent_estimate if percent else lambda e: fmt.estimate(e, sign=sign)
    table(
        [
            {"": name, "value [95 % interval]": shown(e), "n": e.n}
            for name, e in rows
            if e is not None and e.value is not None
        ],
        key,
    )


def doubts_and_skips(doubts: Sequence[str], skipped: Sequence[Skipped]) -> None:
    """Say what was assumed, and what this log cannot show, with the column that is missing."""
    if doubts:
        with st.expander(f"Doubts ({len(doubts)})", icon=":material/help:", expanded=True):
            st.text("\n".join(f"• {fmt.visible(doubt)}" for doubt in doubts))
    if skipped:
        with st.expander(f"Not shown by this log ({len(skipped)})", icon=":material/visibility_off:"):
            st.text("\n".join(f"• {fmt.visible(skipped_in_words(skip))}" for skip in skipped))
