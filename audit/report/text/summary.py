"""``rlaudit summary``: what one run holds, or every run of a directory side by side."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from audit.analyses.directory import DirectorySummary
from audit.analyses.skipped import Skipped
from audit.analyses.summary import Summary
from audit.report import format as fmt
from audit.report.text.directory import add_directory
from audit.report.text.rows import Rows
from audit.report.text.shared import QUIET, STRONG, Page
from audit.stats import Estimate

_INTERVALS = "Intervals: 95 %, resampling prompts."


def show_summary(summary: Summary | DirectorySummary, console: Console | None = None) -> None:
    """Print what a run, or a directory of runs, holds."""
    page = Page(console)
    if isinstance(summary, Summary):
        _add_run(page, summary)
        _add_skipped(page, summary.skipped)
    else:
        add_directory(page, summary)
        needs = Counter((skip.check, skip.needs) for one in summary.per_run for skip in one.skipped)
        _add_skipped(page, summary.skipped, needs, len(summary.per_run))
    page.gap()
    page.say((_INTERVALS, QUIET))
    page.print()


def _add_run(page: Page, summary: Summary) -> None:
    page.say((summary.runs[0], STRONG), f"  {fmt.objective_name(summary.objective)}")
    page.say((_source(summary), QUIET))
    page.gap()
    rows = Rows("", "", "")
    size = f"most often {fmt.plural(summary.group_size, 'response')}" if summary.group_size else ""
    rows.add("responses", fmt.count(summary.responses), "")
    rows.add("groups", fmt.count(summary.groups), Text(size, QUIET))
    rows.add("steps", fmt.count(summary.steps), "")
    rows.add("tokens", fmt.count(summary.tokens), "")
    rows.add("tier", f"{summary.tier} of 6", "")
    for name, e in (("reward", summary.reward), ("length", summary.length)):
        rows.add(name, fmt.estimate(e), _n(e, "response"))
    rows.add(
        "zero-signal", fmt.percent_estimate(summary.zero_signal_share), _n(summary.zero_signal_share, "group")
    )
    for name, e in (("truncated", summary.truncated_share), ("correct", summary.correct_share)):
        if e is not None:
            rows.add(name, fmt.percent_estimate(e), _n(e, "response"))
    rows.add_to(page)
    rejected = [f"{fmt.plural(n, 'row')}: {reason}" for reason, n in summary.source.rejected.items()]
    sections = {
        "Rows left out": rejected,
        "Files left out": summary.source.files_skipped,
        "Notes": summary.notes,
    }
    for title, items in sections.items():
        if items:
            page.heading(title)
            page.listing(items)


def _source(summary: Summary) -> str:
    source = summary.source
    read = f"{fmt.plural(source.rows_read, 'row')} read, {count_or_no(source.rows_rejected)} left out"
    files = fmt.plural(source.files, "file")
    if source.files_skipped:
        files += f" ({fmt.count(len(source.files_skipped))} more left out)"
    return f"{source.format} format, {files}, {read}"


def count_or_no(n: int) -> str:
    """Return ``none`` for 0, else the count."""
    return fmt.count(n) if n else "none"


def _n(e: Estimate | None, noun: str) -> Text:
    return Text("" if e is None else f"n = {fmt.plural(e.n, noun)}", QUIET)


def _add_skipped(
    page: Page, skipped: list[Skipped], needs: Counter[tuple[str, str]] | None = None, runs: int = 0
) -> None:
    if not skipped:
        return
    page.heading("Skipped", "what cannot be asked of a log without the column")
    for skip in skipped:
        where = "" if needs is None else f", in {needs[skip.check, skip.needs]} of {fmt.plural(runs, 'run')}"
        page.bullet(skip.check, (f": needs {skip.needs}{where}", QUIET))
