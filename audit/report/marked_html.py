"""Texts of a log as HTML in which the matches of a search are marked, and nothing of the text acts."""

from __future__ import annotations

import html
from collections.abc import Iterable

from audit.logs.search_marks import Piece
from audit.report.format import visible_lines


def marked(pieces: Iterable[Piece]) -> str:
    """Return escaped HTML: matches in ``<mark>``, line breaks kept, all else that does not print visible."""
    made = []
    for text, matched in pieces:
        shown = html.escape(visible_lines(text))
        made.append(f"<mark>{shown}</mark>" if matched else shown)
    return "".join(made)
