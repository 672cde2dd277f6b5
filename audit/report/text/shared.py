"""Pieces that all terminal output is made of. Text from logs never passes through rich's markup."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from audit.report.format import visible

GOOD, BAD, DOUBT, QUIET, STRONG = "green", "red", "yellow", "dim", "bold"
SEVERITY = {"error": f"bold {BAD}", "warning": DOUBT, "info": "cyan"}

Piece = str | Text | tuple[object, str]
"""A string, a finished text, or (value, style)."""


class _Stdout(Console):
    def on_broken_pipe(self) -> None:
        # That the reader has gone is no failure of the verb: the command line ends quietly.
        raise BrokenPipeError


def to_stdout() -> Console:
    """Return a console on stdout that takes every string as it is: no markup, no emoji codes, no links."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
        # A terminal that lacks a character gets a question mark, not a traceback.
        stream.reconfigure(errors="replace")
    return _Stdout(file=stream, markup=False, highlight=False, emoji=False)


def line(*pieces: Piece) -> Text:
    """Join pieces to one line, control characters made visible."""
    made = Text()
    for piece in pieces:
        if isinstance(piece, Text):
            made.append_text(piece)
        else:
            value, style = piece if isinstance(piece, tuple) else (piece, "")
            made.append(visible(value), style=style)
    return made


class Page:
    """Lines that are laid out for the width of a console, and printed together."""

    def __init__(self, console: Console | None = None, *, dense: bool = False) -> None:
        self._console = console or to_stdout()
        self._dense = dense
        self.width = self._console.width
        self.lines: list[Text] = []
        self.room = max(self._console.height, 40) - 1 if self._console.is_terminal else sys.maxsize
        """Lines that one screen holds; a pipe holds any number."""

    def print(self) -> None:
        """Write the page."""
        for each in self.lines:
            self._console.print(each, soft_wrap=True)

    def say(self, *pieces: Piece, indent: int = 0, first: Text | None = None) -> None:
        """Add a paragraph, wrapped at words; ``first`` stands before it in the indent."""
        wrapped = self.wrap(line(*pieces), max(self.width - indent, 10))
        for number, each in enumerate(wrapped):
            before = first if first is not None and number == 0 else Text()
            self.lines.append(Text.assemble(before, " " * (indent - before.cell_len), each))

    def gap(self, *, always: bool = False) -> None:
        """Add an empty line; on a dense page only where it must be."""
        if always or not self._dense:
            self.lines.append(Text())

    def heading(self, title: str, aside: str = "") -> None:
        """Add an empty line and the title of a section, with a quiet remark beside it."""
        self.gap()
        self.say((title, STRONG), (f"  {aside}" if aside else "", QUIET))

    def bullet(self, *pieces: Piece, mark: str = "·", indent: int = 2) -> None:
        """Add a paragraph behind a mark."""
        self.say(*pieces, indent=indent + 2, first=Text(f"{' ' * indent}{mark}", style=QUIET))

    def listing(self, items: Sequence[str], *, most: int = 6) -> None:
        """Add a bulleted list; what is beyond ``most`` is counted."""
        for item in items[:most]:
            self.bullet((item, QUIET))
        if len(items) > most:
            self.bullet((f"and {len(items) - most} more", QUIET))

    def wrap(self, content: Text, width: int) -> list[Text]:
        """Break text at words; a word that is longer than a line is broken, never cut off."""
        wrapped = content.wrap(self._console, max(width, 1), overflow="fold")
        for each in wrapped:
            each.rstrip()
        return list(wrapped) or [Text()]

    def bar(self, value: float | None, low: float | None, high: float | None, width: int = 12) -> Text:
        """Return a bar from 0 to 1: full up to the lower end of the interval, shaded up to the upper end."""
        if value is None:
            return Text()
        full, shade = ("#", "+") if self._console.options.ascii_only else ("█", "▒")
        ends = (value if low is None else low, value if high is None else high)
        first, last = (round(min(max(end, 0.0), 1.0) * width) for end in ends)
        return Text(full * first, style="cyan").append(shade * (last - first), style="cyan")


def styled(value: object, style: str) -> Text:
    """Return a string as it is, control characters made visible."""
    return Text(visible(value), style=style)


def plain(cells: Iterable[str | Text]) -> list[Text]:
    """Return every cell as text."""
    return [cell if isinstance(cell, Text) else Text(visible(cell)) for cell in cells]
