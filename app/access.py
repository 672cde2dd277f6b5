"""Who may see the dashboard: asked once, in the frame, before anything is read.

The command line decides how (``rlaudit dashboard --auth …``); without it everybody who reaches the server is
admitted, and it is reached from this machine only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st


@dataclass(frozen=True)
class Rules:
    """What the command line asked for."""

    oidc: bool = False
    header: str = ""
    """Header in which a trusted reverse proxy names the user."""
    allow: tuple[str, ...] = ()
    """Users, or @domains; without any, every user whom provider or proxy names."""


def rules(arguments: Sequence[str]) -> Rules:
    """Return the rules among the arguments of the script."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--oidc", action="store_true")
    parser.add_argument("--user-header", default="")
    parser.add_argument("--allow", action="append", default=[])
    given = parser.parse_known_args(arguments)[0]
    return Rules(given.oidc, given.user_header, tuple(given.allow))


def allowed(user: str, allow: Sequence[str]) -> bool:
    """Tell whether a user is one of those named, by the whole name or by the domain behind the last @."""
    if not user:
        return False
    known = user.casefold()
    domain = "@" + known.rpartition("@")[2] if "@" in known else ""
    return not allow or any(each.casefold() in {known, domain} for each in allow)


def admit() -> None:
    """Stop the script for everybody who may not see the logs."""
    asked = rules(sys.argv[1:])
    if asked.header:
        names = st.context.headers.get_all(asked.header)
        # A second value came past the proxy.
        _let_in(names[0].strip() if len(names) == 1 else "", asked, "The proxy named no user.")
    elif asked.oidc:
        if not st.user.is_logged_in:
            st.title("rlaudit")
            st.text("Sign in to see the runs of your team.")
            st.button("Sign in", icon=":material/login:", type="primary", on_click=st.login)
            st.stop()
        _let_in(_verified(asked), asked, "The provider has not verified your e-mail address.")
        st.sidebar.button("Sign out", icon=":material/logout:", type="tertiary", on_click=st.logout)


def _verified(asked: Rules) -> str:
    claims = st.user.to_dict()
    if not asked.allow:
        return str(claims.get("email") or claims.get("sub") or "")
    # An address that the provider did not verify is whatever its owner typed.
    return str(claims.get("email") or "") if claims.get("email_verified") is True else ""


def _let_in(user: str, asked: Rules, nobody: str) -> None:
    if allowed(user, asked.allow):
        return
    st.title("rlaudit")
    st.error(nobody if not user else "You are not on the list of people who may see these runs.")
    if asked.oidc:
        st.button("Sign out", on_click=st.logout)
    st.stop()
