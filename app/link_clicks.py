"""Links within a page that would load it anew are answered in place.

A link keeps its address: it opens in a new tab, can be copied and sent, and works where scripts do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

# Listens for the whole page: the text of logs stays in elements that Streamlit has sanitised, and this code
# reads a number from an address and nothing else.
_JS = """
export default function ({ data, parentElement, setTriggerValue }) {
  const page = parentElement.ownerDocument
  // The link is drawn anew and the focus falls to nothing: who came by keyboard gets it back.
  const refocus = (address, looks) => setTimeout(() => {
    if (page.activeElement !== page.body) return looks && refocus(address, looks - 1)
    const links = [...page.querySelectorAll('a[href^="?"]')]
    links.find((link) => link.getAttribute("href") === address)?.focus({ preventScroll: true })
  }, 50)
  const click = (event) => {
    const link = event.target.closest?.('a[href^="?"]')
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
    const asked = new URL(link.href).searchParams.get(data.parameter)
    if (!/^[0-9]+$/.test(asked ?? "")) return
    event.preventDefault()
    refocus(link.getAttribute("href"), 60)
    setTriggerValue("number", Number(asked))
  }
  page.addEventListener("click", click)
  return () => page.removeEventListener("click", click)
}
"""
_listener: Any = st.components.v2.component("rlaudit_link_clicks", js=_JS, isolate_styles=False)


def answer(parameter: str, key: str, take: Callable[[int], None]) -> None:
    """Call ``take`` with the whole number that a link of this page, once clicked, has as a parameter.

    Called in a fragment, a click runs that fragment and nothing else.

    Parameters
    ----------
    parameter : str
        Name of the parameter; links without it stay links.
    key : str
        Of the element that listens.
    take : callable
        Runs before the fragment does; what it is given comes from a browser, and can be any whole number.
    """

    def took() -> None:
        number = st.session_state[key].get("number")
        if isinstance(number, (int, float)) and number == int(number):
            take(int(number))

    _listener(key=key, data={"parameter": parameter}, on_number_change=took)
