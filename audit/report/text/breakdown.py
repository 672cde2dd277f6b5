"""Pieces of the pages that break a run down: shares with their n, spans of steps, what was skipped."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from audit.analyses.summary import Skipped
from audit.report import format as fmt
from audit.report.text.shared import QUIET, Page
from audit.stats import Estimate

INTERVALS = "Intervals: 95 %, resampling prompts."


def n_of(e: Estimate | None, noun: str = "") -> Text:
    """Return the number behind an estimate, quiet."""
    if e is None:
        return Text("")
    return Text(fmt.plural(e.n, noun) if noun else fmt.count(e.n), QUIET)


def span(first: float, last: float) -> str:
    """Return ``12`` or ``1–12``."""
    return f"{first:g}" if first == last else f"{first:g}–{last:g}"


def add_left_out(page: Page, skipped: Sequence[Skipped], notes: Sequence[str]) -> None:
    """Add what was assumed, and what could not be asked of the log."""
    if notes:
        page.heading("Notes")
        page.listing(list(notes))
    if skipped:
        page.heading("Skipped", "what this log cannot answer, and what it lacks")
        for skip in skipped:
            page.bullet(skip.check, (f": needs {skip.needs}", QUIET))


def add_legend(page: Page, text: str) -> None:
    """Add the last line: what the columns mean."""
    page.gap()
    page.say((f"{text} {INTERVALS}".strip(), QUIET))
