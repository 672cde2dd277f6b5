"""A text cut into what matched and what did not, and to the window that is worth showing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

BEFORE, AROUND = 80, 400
"""Characters shown before the first match, and in all."""


class Piece(NamedTuple):
    """A part of a text."""

    text: str
    matched: bool


Pieces = list[Piece]


def pieces(text: str | None, between: Sequence[str] | None, matches: Sequence[str] | None) -> Pieces:
    """Return the window of a text around its first match.

    Parameters
    ----------
    between : sequence of str, optional
        What stands before, between and behind the matches; n + 1 of them.
    matches : sequence of str, optional
        The n matches, in order.

    Returns
    -------
    list of Piece
        In order; an ellipsis stands where text was left out. Where the parts do not make up the text again,
        nothing is marked rather than the wrong thing.
    """
    if not text:
        return []
    whole = _woven(between or [], matches or [])
    matched = any(piece.matched for piece in whole)
    if not matched or "".join(piece.text for piece in whole) != text:
        whole = [Piece(text, False)]
    start = 0
    if whole[0].matched is False and len(whole) > 1:
        start = max(0, len(whole[0].text) - BEFORE)
    return _window(whole, start)


def _woven(between: Sequence[str], matches: Sequence[str]) -> Pieces:
    woven = []
    for at, plain in enumerate(between):
        woven.append(Piece(plain, False))
        if at < len(matches):
            woven.append(Piece(matches[at], True))
    return [piece for piece in woven if piece.text]


def _window(whole: Pieces, start: int) -> Pieces:
    shown = [Piece("…", False)] if start else []
    left, skip = AROUND, start
    for text, matched in whole:
        part = text[skip : skip + left]
        skip = max(0, skip - len(text))
        if part:
            shown.append(Piece(part, matched))
            left -= len(part)
    if sum(len(piece.text) for piece in whole) > start + AROUND:
        shown.append(Piece("…", False))
    return shown
