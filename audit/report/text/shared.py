"""Pieces that all terminal output is made of. Text from logs never passes through rich's markup."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from audit.report.format import visible

GOOD, BAD, DOUBT, QUIET, STRONG = "green", "red", "yellow", "dim", "bold"
SEVERITY = {"error": f"bold {BAD}", "warning": DOUBT, "info": "cyan"}


def to_stdout() -> Console:
    """Return a console on stdout that takes every string as it is: no markup, no emoji codes, no links."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
        # A terminal that lacks a character gets a question mark, not a traceback.
        stream.reconfigure(errors="replace")
    return Console(file=stream, markup=False, highlight=False, emoji=False)


def text(value: object, style: str = "") -> Text:
    """Return a string as it is, control characters made visible."""
    return Text(visible(value), style=style)


def line(*pieces: str | tuple[object, str]) -> Text:
    """Join strings, and (string, style) pairs, to one line of text."""
    made = Text()
    for piece in pieces:
        value, style = piece if isinstance(piece, tuple) else (piece, "")
        made.append(visible(value), style=style)
    return made


def heading(console: Console, title: str, aside: str = "") -> None:
    """Print a blank line and the title of a section, with a quiet remark beside it."""
    console.print()
    console.print(line((title, STRONG), (f"  {aside}" if aside else "", QUIET)))


def bullet(console: Console, *pieces: str | tuple[object, str], mark: str = "·", indent: int = 2) -> None:
    """Print a line that wraps under itself."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=QUIET), line(*pieces))
    console.print(Padding(grid, (0, 0, 0, indent)))


def listing(console: Console, items: Sequence[str], *, most: int = 6) -> None:
    """Print a bulleted list; what is beyond ``most`` is counted."""
    for item in items[:most]:
        bullet(console, (item, QUIET))
    if len(items) > most:
        bullet(console, (f"and {len(items) - most} more", QUIET))


def bar(console: Console, value: float | None, low: float | None, high: float | None, width: int) -> Text:
    """Return a bar from 0 to 1: full up to the lower end of the interval, shaded up to the upper end."""
    if value is None:
        return Text()
    full, shade = ("#", "+") if console.options.ascii_only else ("█", "▒")
    ends = [min(max(x, 0.0), 1.0) for x in (value if low is None else low, value if high is None else high)]
    first, last = (round(end * width) for end in ends)
    return Text(full * first, style="cyan").append(shade * (last - first), style="cyan dim")


class Rows:
    """A table whose rows may carry a note that runs below them over the whole width."""

    def __init__(self, *titles: str, right: Sequence[str] = (), indent: int = 2, gap: int = 2) -> None:
        self._titles = titles
        self._right = frozenset(right)
        self._indent = indent
        self._gap = gap
        self._rows: list[tuple[list[Text], Text | None]] = []

    def add(self, *cells: str | Text, note: str | Text = "") -> None:
        """Add a row; strings are taken as they are."""
        made = [cell if isinstance(cell, Text) else text(cell) for cell in cells]
        below = note if isinstance(note, Text) else text(note, QUIET)
        self._rows.append((made, below if below.plain else None))

    def print(self, console: Console) -> None:
        """Print the rows with the columns aligned over all of them."""
        widths = self._widths(console.width - self._indent)
        if any(self._titles):
            self._print(console, self._grid(widths, [Text(title, style=QUIET) for title in self._titles]))
        for cells, note in self._rows:
            self._print(console, self._grid(widths, cells))
            if note is not None:
                console.print(Padding(note, (0, 0, 0, self._indent + 2)), overflow="fold")

    def _print(self, console: Console, row: RenderableType) -> None:
        console.print(Padding(row, (0, 0, 0, self._indent)))

    def _widths(self, room: int) -> list[int]:
        """Natural widths; where they do not fit, the widest columns give way and their cells wrap."""
        columns = list(zip(*(cells for cells, _ in self._rows), strict=True)) if self._rows else []
        widths = [
            max([cell_len(title), *(cell.cell_len for cell in cells)])
            for title, cells in zip(self._titles, columns, strict=False)
        ]
        room -= self._gap * (len(widths) - 1)
        while sum(widths) > room and max(widths) > 8:
            widths[widths.index(max(widths))] -= 1
        return widths

    def _grid(self, widths: list[int], cells: Sequence[Text]) -> Table:
        grid = Table.grid(padding=(0, self._gap, 0, 0))
        for title, width in zip(self._titles, widths, strict=True):
            grid.add_column(justify="right" if title in self._right else "left", width=width, overflow="fold")
        grid.add_row(*cells)
        return grid
