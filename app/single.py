"""What the pages of one run are built of: cards in a grid, and one view at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import streamlit as st
from audit.app import cached, long_work, parts
from audit.app.context import Context
from audit.app.listing import Listed
from audit.app.long_work import Stage

from audit.report.charts import Chart

VIEW = "view"
"""Key of the picker of views, and parameter of the URL."""
_NARROWEST = 340


def analysed(context: Context, listed: Listed, kind: str, **options: Any) -> Any:
    """Return an analysis of the run, or its error as text; the page says how long it takes, and can stop."""
    work = partial(cached.analysis, context.root, listed, kind, **options)
    return long_work.finish(kind, [Stage(f"Reading {listed.name}", work)])


def show_view(views: Mapping[str, Callable[[], None]], first: str | None = None) -> None:
    """Let a view be picked, and draw it; the address carries it.

    Parameters
    ----------
    views : mapping of title to what draws it
    first : str, optional
        The view at first, instead of the first one.
    """
    names = list(views)
    # The view of another page is none here.
    if st.session_state.get(VIEW) not in (None, *names):
        del st.session_state[VIEW]
    picked = st.segmented_control(
        "View",
        names,
        default=first or names[0],
        required=True,
        key=VIEW,
        bind="query-params",
        label_visibility="collapsed",
    )
    views[picked]()


@contextmanager
def cards(columns: int = 2) -> Iterator[None]:
    """Hold cards side by side; below each other where there is no room."""
    with st.grid(columns, min_column_width=_NARROWEST):
        yield


@contextmanager
def card(title: str, *, about: str | None = None) -> Iterator[None]:
    """Hold what answers one question; ``title`` and ``about`` are Markdown of ours, never text of a log."""
    with st.container(border=True, height="stretch"):
        st.markdown(f"**{title}**", help=about)
        yield


def chart_card(
    title: str, make: Callable[[], Chart], key: str, said: str = "", about: str | None = None
) -> None:
    """Show a chart in a card of its own, with a line of ours below it."""
    with card(title, about=about):
        if parts.chart(make, title, key) and said:
            parts.caption(said)
