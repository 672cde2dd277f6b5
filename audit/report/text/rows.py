"""A table without rules, whose rows may carry a note that runs below them over the whole width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from audit.report.text.shared import QUIET, STRONG, Page, line, plain

_GAP = "  "
_NARROWEST = 8


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
        widths = self._natural()
        room -= len(_GAP) * (len(widths) - 1)
        soft = [at for at in range(len(widths)) if at not in self._whole]
        for columns in (soft, range(len(widths))):
            while sum(widths) > room and max((widths[at] for at in columns), default=0) > _NARROWEST:
                widths[max(columns, key=lambda at: (widths[at], -at))] -= 1
        return widths

    def _lines(self, page: Page, widths: list[int], cells: Sequence[Text]) -> list[Text]:
        blocks = [page.wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
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
