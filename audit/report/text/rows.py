"""A table without rules, whose rows may carry a note that runs below them over the whole width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from audit.report.text.shared import QUIET, STRONG, Page, line, plain

_GAP = "  "
_LONGEST_WORD = 10
"""Columns that a word keeps as long as others can give way."""
_NARROWEST = 6


class _Row(NamedTuple):
    cells: list[Text]
    note: Text


class Rows:
    """Rows under a first title that names the section; strings are taken as they are.

    Parameters
    ----------
    titles : str
        One per column; the first is set strong, the others quiet.
    right : sequence of int
        Columns that are set flush right.
    whole : sequence of int
        Columns whose cells are broken only where those of the others cannot be.
    """

    def __init__(self, *titles: str, right: Sequence[int] = (), whole: Sequence[int] = ()) -> None:
        self._titles = [
            Text(title, style=STRONG if at == 0 else QUIET) for at, title in enumerate(plain_titles(titles))
        ]
        self._right = frozenset(right)
        self._whole = frozenset(whole)
        self._rows: list[_Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *cells: str | Text, note: str | Text = "") -> None:
        """Add a row, and what is to be said below it."""
        first, *rest = plain(cells)
        below = note if isinstance(note, Text) else line((note, QUIET))
        self._rows.append(_Row([Text.assemble(_GAP, first), *rest], below))

    def add_to(self, page: Page) -> None:
        """Lay the rows out on a page, columns aligned over all of them."""
        widths = self._fitted(page.width)
        if any(title.plain for title in self._titles):
            page.lines += self._lines(page, widths, self._titles)
        for row in self._rows:
            page.lines += self._lines(page, widths, row.cells)
            if row.note.plain:
                page.say(row.note, indent=4)

    def _natural(self) -> list[int]:
        table = [self._titles, *(row.cells for row in self._rows)]
        return [max(cell.cell_len for cell in column) for column in zip(*table, strict=True)]

    def _fitted(self, room: int) -> list[int]:
        """Natural widths; where they do not fit, the widest columns give way and their cells wrap."""
        widths, words = self._natural(), self._words()
        room -= len(_GAP) * (len(widths) - 1)
        every = range(len(widths))
        soft = [at for at in every if at not in self._whole]
        for columns, least in ((soft, words), (every, words), (every, [_NARROWEST] * len(widths))):
            while sum(widths) > room and (wide := [at for at in columns if widths[at] > least[at]]):
                widths[max(wide, key=lambda at: (widths[at], -at))] -= 1
        return widths

    def _words(self) -> list[int]:
        """Longest word of each column, the indent of the first one included."""
        table = [self._titles, *(row.cells for row in self._rows)]
        longest = [
            max((len(word) for cell in column for word in cell.plain.split()), default=0)
            for column in zip(*table, strict=True)
        ]
        return [min(each, _LONGEST_WORD) + len(_GAP) * (at == 0) for at, each in enumerate(longest)]

    def _lines(self, page: Page, widths: list[int], cells: Sequence[Text]) -> list[Text]:
        blocks = [
            # The lines after the first of the first column are indented.
            page.wrap(cell, width - len(_GAP) if at == 0 and cell.cell_len > width else width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return [self._line(widths, blocks, number) for number in range(max(map(len, blocks)))]

    def _line(self, widths: list[int], blocks: list[list[Text]], number: int) -> Text:
        made = Text()
        for at, (width, block) in enumerate(zip(widths, blocks, strict=True)):
            cell = block[number] if number < len(block) else Text()
            # Wrapped cells of the first column keep the indent of its rows.
            indent = _GAP if at == 0 and number else ""
            fill = " " * max(width - cell.cell_len - len(indent), 0)
            before, after = (fill, "") if at in self._right else ("", fill)
            made = Text.assemble(made, _GAP if at else "", indent, before, cell, after)
        made.rstrip()
        return made


def plain_titles(titles: Sequence[str]) -> list[str]:
    """Return titles with control characters made visible (some are names from files)."""
    return [text.plain for text in plain(titles)]
