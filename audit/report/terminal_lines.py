"""What the terminal shows of a result, as lines: plain for Markdown, styled for HTML."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

WIDTH, SLIM = 108, 48
"""Columns of a page, and of a phone."""
_COLOURS = {"red": "low", "green": "good", "yellow": "fair", "cyan": "a"}


class _Lines(Console):
    """A console that keeps the lines which would be printed."""

    def __init__(self, width: int) -> None:
        super().__init__(file=io.StringIO(), width=width, markup=False, highlight=False, emoji=False)
        self.texts: list[Text] = []

    def print(self, *objects: Any, **_: Any) -> None:
        self.texts += [each if isinstance(each, Text) else Text(str(each)) for each in objects]


Lines = list[list[tuple[str, str]]]
"""Lines of (text, CSS classes)."""


def lines_of(show: Callable[[Any, Console], None], result: Any, width: int = WIDTH) -> Lines:
    """Return what ``show`` prints of a result; what does not print is visible in it already.

    Parameters
    ----------
    show : callable
        One of :mod:`audit.report.text`.
    width : int
        Columns that they are laid out for.
    """
    console = _Lines(width)
    show(result, console)
    return [[_piece(segment) for segment in text.render(console)] for text in console.texts]


def _piece(segment: Segment) -> tuple[str, str]:
    style = segment.style
    if style is None:
        return segment.text, ""
    classes = ["strong"] if style.bold else []
    classes += ["quiet"] if style.dim else []
    colour = style.color.name if style.color is not None else ""
    classes += [_COLOURS[colour]] if colour in _COLOURS else []
    return segment.text, " ".join(classes)


def as_plain(lines: Lines) -> str:
    """Return the lines without their styles."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines).strip("\n")


def as_html(lines: Lines) -> str:
    """Return the lines as escaped HTML for a ``<pre>``."""
    made = []
    for line in lines:
        made.append(
            "".join(
                f'<span class="{classes}">{html.escape(text)}</span>' if classes else html.escape(text)
                for text, classes in line
                if text != "\n"
            ).rstrip()
        )
    return "\n".join(made).strip("\n")
