"""``rlaudit import``: what became of every record of a log."""

from __future__ import annotations

from rich.console import Console

from audit.importers.into import Imported
from audit.report import format as fmt
from audit.report.text.shared import QUIET, STRONG, Page


def show_imported(done: Imported, console: Console | None = None) -> None:
    """Print how many records became rows, why others did not, and what the run holds."""
    page = Page(console)
    page.say((done.source, STRONG), (f"  {done.format} format", QUIET))
    page.say(_counts(done))
    page.say(_groups(done))
    page.say(f"tier {done.tier} of 6: {done.tier_name}")
    if done.scalars:
        page.say(f"{fmt.plural(done.scalars, 'logged number')} in metrics/")
    if done.notes or done.cannot:
        page.heading("Notes")
        for note in done.notes:
            page.bullet(note)
        if done.cannot:
            page.bullet(f"{done.format} logs hold {done.cannot}")
    if done.skipped:
        page.heading("Files left out")
        for file, reason in done.skipped.items():
            page.bullet(file, (f": {reason}", QUIET))
    page.gap()
    page.say(f"written to {done.dest}")
    page.print()


def _counts(done: Imported) -> str:
    rejected = sum(done.rejected.values())
    reasons = "; ".join(f"{reason}: {fmt.count(count)}" for reason, count in done.rejected.items())
    made = f"{fmt.plural(done.rows, 'row')}, {fmt.count(rejected)} rejected"
    return f"read {fmt.plural(done.read, 'line')}: {made}" + (f" ({reasons})" if reasons else "")


def _groups(done: Imported) -> str:
    steps = fmt.plural(done.steps, "step")
    if done.groups is None:
        return f"no groups, {steps}"
    return f"{fmt.plural(done.groups, 'group')}, most often of {done.group_size}; {steps}"
