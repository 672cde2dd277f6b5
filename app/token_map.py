"""The heat map of one response, its pages, and the formula of the token that was chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

import streamlit as st
from audit.app import link_clicks, look
from audit.app.cached_step import Tokens

from audit.analyses.token_view import Measure
from audit.objectives.objective import Objective
from audit.report import format as fmt
from audit.report.token_html import Token, heat_map, legend
from audit.report.token_words import BRANCHES, SCALES, factors_of_token, formula

WINDOW = 1_000
"""Tokens of one page."""
_NUMBER = re.compile(r"[0-9]{1,15}")
LONGEST = 20_000
"""Characters of a text that are shown at once."""


def lines(text: str) -> str:
    """A text of a log, line by line, with what does not print made visible."""
    shown = "\n".join(map(fmt.visible, text[:LONGEST].split("\n")))
    left = len(text) - LONGEST
    return f"{shown}… and {left:,} more characters" if left > 0 else shown


@st.fragment
def show(
    found: Tokens,
    objective: Objective,
    measure: Measure,
    texts: Mapping[int, str],
    place: Mapping[str, object],
) -> None:
    """Show a page of tokens, and the factors of the one that is chosen.

    A click on a token runs this and not the page around it.

    Parameters
    ----------
    place : mapping
        What the address of a token says beside the token itself.
    """
    view = found.view
    count = len(view.mask)
    if not count:
        st.info("This response has no tokens.")
        return
    _forget(count)
    scale = SCALES[measure]
    st.html(legend(scale.strongest, scale.unit))
    pages = -(-count // WINDOW)
    below = st.container()
    page = st.pagination(pages, key="page", bind="query-params") if pages > 1 else 1
    picked, told = st.columns([1, 3])
    with picked:
        token = st.number_input(
            "Token",
            min_value=0,
            max_value=count - 1,
            value=None,
            key="token",
            # Streamlit makes a whole number of whatever the address says, and fails at 1e400.
            bind="query-params" if all(map(_NUMBER.fullmatch, st.query_params.get_all("token"))) else None,
            placeholder="click one above",
            help=f"Its place in the response, 0 to {count - 1:,}.",
        )
    first = (page - 1) * WINDOW
    where = {**place, "page": page} if pages > 1 else place
    with below, st.container(border=True):
        made = [
            _token(found, at, measure, texts)._replace(
                href=f"?{urlencode({**where, 'token': at})}", chosen=at == token
            )
            for at in range(first, min(first + WINDOW, count))
        ]
        st.html(heat_map(made, scale.strongest))
        if pages > 1:
            st.caption(f"Tokens {first:,} to {min(first + WINDOW, count) - 1:,} of {count:,}.")

    def take(number: int) -> None:
        st.session_state["token"] = min(number, count - 1)

    link_clicks.answer("token", "token-clicks", take)
    if token is not None:
        with told:
            st.text(f"Token {token:,} · {_name(found, token, texts)}")
            st.code(formula(view, token), language=None, wrap_lines=True)
        look.rows(
            [
                {"": factor.symbol, "value": factor.value, "what": factor.what}
                for factor in factors_of_token(view, token, objective)
            ],
            right=("value",),
        )


def _forget(count: int) -> None:
    """Forget the token and the page of another response that this one does not have."""
    if (st.session_state.get("token") or 0) >= count:
        del st.session_state["token"]
    if st.session_state.get("page", 1) > -(-count // WINDOW):
        del st.session_state["page"]


def _token(found: Tokens, at: int, measure: Measure, texts: Mapping[int, str]) -> Token:
    view = found.view
    value = float(view.measures[measure][at])
    if measure == "weight":
        value /= found.typical
    known = None if view.ids is None else texts.get(int(view.ids[at]))
    text = known or (f"·{at}" if view.ids is None else f"⟨{view.ids[at]}⟩")
    title = f"{at}: {SCALES[measure].title} {fmt.number(value)}; {BRANCHES[view.branch[at]]}"
    return Token(text, value, title, removed=bool(view.zeroed[at]), masked=not view.mask[at])


def _name(found: Tokens, at: int, texts: Mapping[int, str]) -> str:
    ids = found.view.ids
    if ids is None:
        return "ids are not logged"
    text = texts.get(int(ids[at]))
    return f"id {ids[at]}" + ("" if text is None else f" · “{fmt.visible(text)[:200]}”")
