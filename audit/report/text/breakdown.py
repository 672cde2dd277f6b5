"""Pieces of the pages that break a run down: shares with their n, spans of steps, what was skipped."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from audit.analyses.skipped import Skipped
from audit.report import format as fmt
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, Page
from audit.stats import Estimate

Columns = Sequence[tuple[str, Sequence[str]]]
"""Title and cells of each column."""
INTERVALS = "Intervals: 95 %, resampling prompts."


def n_of(e: Estimate | None, noun: str = "") -> Text:
    """Return the number behind an estimate, quiet."""
    if e is None:
        return Text("")
    return Text(fmt.plural(e.n, noun) if noun else fmt.count(e.n), QUIET)


def span(first: float, last: float) -> str:
    """Return ``12`` or ``1–12``."""
    return f"{first:g}" if first == last else f"{first:g}–{last:g}"


def add_columns(page: Page, rows: Sequence[Text | str], title: str, columns: Columns) -> None:
    """Add a table of which the columns that are empty in every row are left out; nothing if all are."""
    held = [(name, cells) for name, cells in columns if any(cell not in ("", fmt.NOTHING) for cell in cells)]
    if not held:
        return
    page.gap()
    table = Rows(title, *(name for name, _ in held))
    for at, row in enumerate(rows):
        table.add(row, *(cells[at] for _, cells in held))
    table.add_to(page)


def add_left_out(page: Page, skipped: Sequence[Skipped], notes: Sequence[str]) -> None:
    """Add what was assumed, and what could not be asked of the log."""
    if notes:
        page.heading("Notes")
        page.listing(list(notes))
    add_skipped(page, skipped)


def add_skipped(page: Page, skipped: Sequence[Skipped]) -> None:
    """List what could not be asked of the log, and what it lacks."""
    if not skipped:
        return
    page.heading("Skipped", "what this log cannot answer, and what it lacks")
    for skip in skipped:
        page.bullet(skip.check, (f": needs {skip.needs}", QUIET))


def add_legend(page: Page, text: str) -> None:
    """Add the last line: what the columns mean."""
    page.gap()
    page.say((f"{text} {INTERVALS}".strip(), QUIET))
