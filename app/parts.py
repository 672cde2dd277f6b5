"""What pages share: a verdict, numbers with their interval and n, charts, and what was skipped."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st
from audit.app import context as ctx

from audit.analyses.skipped import Skipped
from audit.errors import AuditError
from audit.report import format as fmt
from audit.report.charts import Chart
from audit.report.page_words import on_page, unbroken
from audit.report.words import skipped_in_words
from audit.stats import Estimate


def or_stop(result: Any) -> Any:
    """Return the result of an analysis; where it is an error, say it and stop the page."""
    if isinstance(result, str):
        st.warning("This log cannot answer that:")
        say(result)
        st.stop()
    return result


def say(text: object) -> None:
    """Show what an analysis or an error says as plain text, in the words of a page."""
    st.text(_said(text))


def caption(text: str, **options: Any) -> None:
    """Show a line of ours below what it is about; a number and its ``%`` stay on one line."""
    st.caption(unbroken(text), **options)


def _said(text: object) -> str:
    return on_page(text, ctx.current().root)


def numbers(entries: Mapping[str, Estimate | None], of: str, *, percent: bool = False) -> None:
    """Show estimates side by side: value, 95 % interval, n.

    Parameters
    ----------
    of : str
        What n counts, in the plural.
    """
    whole = fmt.percent_estimate if percent else fmt.estimate
    tiles = []
    for name, e in entries.items():
        if e is None or e.value is None:
            continue
        value, _, interval = whole(e).partition(" [")
        unit = " %" if interval.endswith("%") else ""
        tiles.append(
            f'<div><div style="font-size:.875rem">{html.escape(name)}</div>'
            f'<div style="font-size:1.7rem;line-height:1.3">{html.escape(value + unit)}</div>'
            f'<div style="font-size:.875rem;opacity:.7">[{html.escape(interval)}, '
            f"n = {fmt.count(e.n)} {html.escape(of)}</div></div>"
        )
    if tiles:
        st.html(f'<div style="display:flex;flex-wrap:wrap;gap:.6em 2.6em">{"".join(tiles)}</div>')


def chart(make: Callable[[], Chart], alt: str, key: str) -> bool:
    """Draw a chart, or say why there is nothing to draw; tell whether there was.

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
        st.info(_said(error))
        return False
    st.altair_chart(made, key=key, alt=alt)
    return True


def table(rows: Sequence[Mapping[str, Any]], key: str, **options: Any) -> Any:
    """Show rows as a table; text of a log is made visible first."""
    if not rows:
        return None
    shown = {
        name: [fmt.visible(row[name]) if isinstance(row[name], str) else row[name] for row in rows]
        for name in rows[0]
    }
    return st.dataframe(shown, hide_index=True, key=key, lazy=False, placeholder=fmt.NOTHING, **options)


def doubts_and_skips(doubts: Sequence[str], skipped: Sequence[Skipped], *, opened: bool = False) -> None:
    """Say what was assumed, and what this log cannot show, with the column that is missing.

    Parameters
    ----------
    opened : bool
        Show at once what is missing, where it is why a page has nothing else to show.
    """
    if doubts:
        with st.expander(f"Doubts ({len(doubts)})", icon=":material/help:", expanded=True):
            st.text("\n".join(f"• {_said(doubt)}" for doubt in doubts))
    if skipped:
        label = f"Not shown by this log ({len(skipped)})"
        with st.expander(label, icon=":material/visibility_off:", expanded=opened):
            st.text("\n".join(f"• {_said(skipped_in_words(skip))}" for skip in skipped))
