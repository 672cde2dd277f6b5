"""The tokens of a response as a heat map in HTML: every character of a log is escaped or made visible."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

LONGEST = 200
"""Characters of one token that are shown."""
UP, DOWN = (213, 94, 0), (0, 114, 178)
"""Colours above and below 0, told apart by people who see colours otherwise."""
_OPAQUE = 0.75
"""Of the strongest colour; text stays readable on it, on white and on black."""
_GLYPHS = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\x00": "␀", "\u00a0": "⍽"}
_HATCHED = (
    "background-image:repeating-linear-gradient(45deg,rgba(128,128,128,.45) 0 2px,transparent 2px 6px);"
    "opacity:.65;"
)
_REMOVED = "text-decoration:underline wavy 2px;text-underline-offset:3px;"
_BOX = (
    "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:14px;line-height:2;"
    "overflow-wrap:anywhere;color:inherit;"
)
_TOKEN = "color:inherit;text-decoration:none;padding:2px 1px;border-radius:3px;unicode-bidi:isolate;"


class Token(NamedTuple):
    """One token of the map; strings may be hostile."""

    text: str
    value: float | None
    """What its colour shows; None: no colour."""
    title: str
    """Shown while the pointer rests on it."""
    href: str = ""
    """Query of the page that explains the token, ``?token=3``."""
    removed: bool = False
    masked: bool = False
    chosen: bool = False


def heat_map(tokens: Sequence[Token], scale: float) -> str:
    """Return the map.

    Parameters
    ----------
    scale : float
        The value, and minus the value, at which the colour is strongest: fixed for a measure, so that two
        maps can be compared.
    """
    return f'<div style="{_BOX}">{"".join(_span(token, scale) for token in tokens)}</div>'


def legend(scale: float, unit: str) -> str:
    """Return what the colours and patterns mean."""
    stops = ",".join(_colour(at * scale, scale) for at in (-1.0, -0.5, 0.0, 0.5, 1.0))
    bar = (
        f'<span style="display:inline-block;width:9em;height:.8em;border-radius:3px;vertical-align:middle;'
        f'background:linear-gradient(90deg,{stops});border:1px solid rgba(128,128,128,.4)"></span>'
    )
    removed = f'<span style="{_REMOVED}">removed by the trust region</span>'
    masked = f'<span style="{_HATCHED}padding:2px 4px">takes no loss</span>'
    return (
        '<div style="font-size:13px;display:flex;flex-wrap:wrap;gap:.4em 1.6em;align-items:center">'
        f"<span>−{scale:g} {bar} +{scale:g} {escape(unit)}</span>{removed}{masked}</div>"
    )


def shown(text: str) -> str:
    """Return a token as people can see it: white space as glyphs, what does not print as its code.

    A mark that would combine with the token before it, and characters that would turn the direction of the
    line, stay within the token.
    """
    cut = text[:LONGEST]
    made = "".join(map(_character, cut))
    if cut and unicodedata.combining(cut[0]):
        made = "◌" + made
    left = len(text) - len(cut)
    return f"{made}…(+{left:,} characters)" if left else made


def _span(token: Token, scale: float) -> str:
    style = _TOKEN
    if token.value is not None and math.isfinite(token.value):
        style += f"background-color:{_colour(token.value, scale)};"
    if token.masked:
        style += _HATCHED
    if token.removed:
        style += _REMOVED
    if token.chosen:
        style += "outline:2px solid currentColor;"
    made = (
        f'<a href="{escape(token.href)}" style="{style}" title="{escape(token.title)}">'
        f"{escape(shown(token.text))}</a>"
    )
    # The place to break a line; after a newline of the response there is one.
    return made + ("<br>" if token.text.endswith("\n") else "<wbr>")


def _character(character: str) -> str:
    if character in _GLYPHS:
        return _GLYPHS[character]
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _colour(value: float, scale: float) -> str:
    strength = min(abs(value) / scale, 1.0) * _OPAQUE
    red, green, blue = UP if value > 0 else DOWN
    return f"rgba({red},{green},{blue},{strength:.2f})"
