"""``rlaudit sql``: the rows of a query."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from audit.logs.sql_result import QueryResult, cell
from audit.report import format as fmt
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, Page

_LONGEST = 200
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL")


def show_sql(result: QueryResult, console: Console | None = None) -> None:
    """Print the rows; a long cell is cut, and the cut is said."""
    page = Page(console)
    numbers = [
        at for at, column in enumerate(result.columns) if any(kind in column.type for kind in _NUMBERS)
    ]
    rows = Rows(
        *[fmt.visible(column.name) for column in result.columns],
        right=[at for at in numbers if "[" not in result.columns[at].type],
    )
    for row in result.rows:
        rows.add(*map(_cell, row))
    rows.add_to(page)
    page.gap()
    page.say((rows_in_words(result), QUIET))
    page.print()


def rows_in_words(result: QueryResult) -> str:
    """Say how many rows there are, and whether there are more."""
    many = f"first {result.n:,} of more rows" if result.more else fmt.plural(result.n, "row")
    return f"{many}, {result.seconds:.2f} s"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return fmt.NOTHING
    text = fmt.visible(cell(value), whole=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
