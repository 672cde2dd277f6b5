"""One response that a search found: what is known of it, its text with the matches marked, its tokens."""

from __future__ import annotations

import html
from urllib.parse import urlencode

import streamlit as st
from audit.app.context import RUNS

from audit.logs.search import Hit
from audit.report import format as fmt
from audit.report.marked_html import marked

_STYLE = (
    "<style>.hit mark{background:rgba(250,190,60,.45);color:inherit;border-radius:2px;padding:0 1px}"
    ".hit pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.2em 0 0;font-size:.82rem;line-height:1.5;"
    "max-height:14em;overflow:auto;background:none;border:0;padding:0}"
    ".hit .about{font-size:.8rem;display:flex;flex-wrap:wrap;gap:.1em 1.1em;margin-bottom:.25em}"
    ".hit .about span,.hit .prompt{opacity:.7}</style>"
)


def show_hit(hit: Hit, run: str, key: str) -> None:
    """Show one hit; every text of the log is escaped.

    Parameters
    ----------
    run : str
        Name of the run in the list, for the link.
    """
    with st.container(border=True, key=key):
        texts, links = st.columns([7, 1], gap="small", vertical_alignment="top")
        with texts:
            st.html(f'{_STYLE}<div class="hit">{_about(hit)}{_texts(hit)}</div>')
        with links:
            # A tab of its own: the place in the search stays, and so does the choice of runs.
            st.link_button("Tokens", tokens_of(hit, run), type="tertiary", icon=":material/grid_on:")


def tokens_of(hit: Hit, run: str) -> str:
    """Return the address of a response on the page of tokens, beside that of the search."""
    place = {RUNS: run, "step": hit.step, "group": hit.group_id, "sample": hit.sample_index}
    return f"tokens?{urlencode(place)}"


def _about(hit: Hit) -> str:
    known = [
        ("step", str(hit.step) + (f", epoch {hit.epoch}" if hit.epoch else "")),
        ("group", hit.group_id),
        ("sample", str(hit.sample_index)),
        ("reward", fmt.number(hit.reward)),
        ("", {True: "right", False: "wrong", None: ""}[hit.correct]),
        ("tokens", fmt.count(hit.length)),
        ("ended by", hit.finish_reason or ""),
        ("prompt", hit.prompt_id),
    ]
    said = [
        f"<div><span>{name}</span> <b>{html.escape(fmt.visible(value))}</b></div>"
        for name, value in known
        if value and value != fmt.NOTHING
    ]
    return f'<div class="about">{"".join(said)}</div>'


def _texts(hit: Hit) -> str:
    prompt = f'<pre class="prompt">{marked(hit.prompt)}</pre>' if hit.prompt else ""
    if not hit.response:
        return f"{prompt}<i>no text</i>"
    return f"{prompt}<pre>{marked(hit.response)}</pre>"
