"""The pages, in the order of the menu. Adding one: its file, its test, and a line here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

_FOLDER = Path(__file__).parent / "app_pages"


def _page(name: str, title: str, icon: str, help: str, **options: Any) -> Any:  # noqa: A002
    # Streamlit's own name of the parameter.
    path = "" if options.get("default") else name.replace("_", "-")
    return st.Page(
        str(_FOLDER / f"{name}.py"),
        title=title,
        icon=f":material/{icon}:",
        url_path=path or None,
        help=help,
        **options,
    )


def pages() -> dict[str, list[Any]]:
    """Return the pages under their headings.

    New ones for every run of the script: Streamlit notes in a page that it may run, once, and two visitors
    who shared one would take that note from each other.
    """
    return {
        "": [
            _page("runs", "Runs", "table_rows", "Every run of the directory", default=True),
        ],
        "Several runs": [
            _page("compare", "Compare", "difference", "Why do two runs differ, or several?"),
        ],
        "One run": [
            _page("length", "Length", "straighten", "Is length rewarded by accident?"),
            _page("groups", "Groups & prompts", "group_work", "Groups without signal, prompts that pull"),
            _page("clipping", "Clipping", "content_cut", "What the trust region removed"),
            _page("kl", "KL", "social_distance", "Distance from reference and old policy"),
            _page("mismatch", "Mismatch", "compare_arrows", "Sampler against trainer"),
            _page("tokens", "Tokens", "grid_on", "A response, token by token"),
            _page("what_if", "What if", "tune", "One step under another objective"),
        ],
        "Look & share": [
            _page("search", "Search", "search", "Responses by text, step, reward and more"),
            _page("sql", "SQL", "database", "One SELECT over the rows of a run"),
            _page("report", "Report", "description", "Take what was found along as a file"),
        ],
    }
