"""Colour chips of runs: a picture for a table, and the line that names the runs of a page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import quote

import streamlit as st
from audit.app.small_table import show as rows

from audit.report import format as fmt
from audit.report.page_words import on_page

__all__ = ["chip", "ink", "items", "lead", "legend", "rows", "texts"]

_LINE = "border-bottom:1px solid rgba(128,128,128,.22);"


def chip(colour: str) -> str:
    """Return a round spot of a colour as a picture in a URL; ``colour`` is one of our own."""
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg' width='16' height='16'>"
        f"<circle cx='8' cy='8' r='6' fill='{colour}'/></svg>"
    )
    return f"data:image/svg+xml;utf8,{quote(svg)}"


def ink() -> str:
    """Return a colour for text and thin lines in a chart, to be read on the page's background."""
    return "#D1D5DB" if st.context.theme.type == "dark" else "#4B5563"


def legend(entries: Sequence[tuple[str, str, str]]) -> None:
    """Show which colour is which run: (name, colour, what is said of it); text of logs is escaped."""
    spans = [
        '<span style="display:inline-flex;align-items:baseline;gap:.45em;margin:0 1.4em .25em 0">'
        f'<span style="width:.75em;height:.75em;border-radius:50%;background:{colour};flex:none"></span>'
        f"<b>{html.escape(fmt.visible(name))}</b>"
        f'<span style="opacity:.65">{html.escape(fmt.visible(said))}</span></span>'
        for name, colour, said in entries
    ]
    st.html(f'<div style="display:flex;flex-wrap:wrap;line-height:1.5">{"".join(spans)}</div>')


def lead(text: str, *, sentences: int = 1) -> None:
    """Show what an analysis concludes: the first sentences large, the rest below them; all of it escaped."""
    said = on_page(text).split(". ")
    first, rest = ". ".join(said[:sentences]), ". ".join(said[sentences:])
    stop = "." if rest else ""
    with st.container(border=True):
        st.html(
            '<div style="font-size:1.1rem;font-weight:600;line-height:1.4">'
            f"{html.escape(first + stop)}</div>"
            + (f'<div style="margin-top:.4em;line-height:1.5">{html.escape(rest)}</div>' if rest else "")
        )


def texts(entries: Sequence[tuple[str, str | None]]) -> None:
    """Show texts of a log one below the other, each under a line of ours; what does not print is visible."""
    made = []
    for said, text in entries:
        shown = "<i>the log holds no text of it</i>"
        if text is not None:
            shown = (
                '<pre style="white-space:pre-wrap;overflow-wrap:anywhere;max-height:18em;overflow:auto;'
                f'margin:0;font-size:.8rem;line-height:1.45">{html.escape(fmt.visible_lines(text))}</pre>'
            )
        about = f'<div style="font-size:.75rem;opacity:.65">{html.escape(fmt.visible(said))}</div>'
        made.append(f'<div style="padding:.45em 0;{_LINE}">{about}{shown}</div>')
    st.html("".join(made))


def items(entries: Sequence[tuple[str, str, str]]) -> None:
    """Show a list of (name, numbers, explanation): name and numbers on one line, what it means below."""
    made = [
        f'<div style="padding:.45em 0;{_LINE}"><div style="display:flex;flex-wrap:wrap;gap:0 1em;'
        f'justify-content:space-between"><b>{html.escape(fmt.visible(name))}</b>'
        f'<span style="font-size:.875rem">{html.escape(on_page(numbers))}</span></div>'
        f'<div style="font-size:.875rem;opacity:.75">{html.escape(on_page(said))}</div></div>'
        for name, numbers, said in entries
    ]
    st.html("".join(made))
