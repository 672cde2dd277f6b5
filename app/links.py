"""Links from page to page, and the choice of runs that they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st
from audit.app.context import RUNS
from audit.app.pages import pages


def page_at(path: str) -> Any:
    """Return the page at a URL path; '' is the first one."""
    return next(page for under in pages().values() for page in under if page.url_path == path)


def link(path: str, *, label: str | None = None, disabled: bool = False) -> None:
    """Show a link to a page; the choice of runs goes with it, for its picker is on every page.

    Parameters
    ----------
    label : str, optional
        Text of ours, never of a log: a label is Markdown. The page's title without it.
    """
    page = page_at(path)
    st.page_link(page, label=label or page.title, icon=page.icon, disabled=disabled)


def choose(runs: Sequence[str]) -> None:
    """Take other runs as the choice; only in a callback, before the picker is drawn."""
    st.session_state[RUNS] = list(runs)


def single_run_links() -> None:
    """Show links to every page of one run."""
    for page in pages().get("One run", []):
        link(page.url_path)
