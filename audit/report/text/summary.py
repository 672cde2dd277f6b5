"""``rlaudit summary``: what one run holds, or every run of a directory side by side."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from audit.analyses.directory import DirectorySummary
from audit.analyses.summary import Skipped, Summary
from audit.report import format as fmt
from audit.report.text.shared import BAD, QUIET, STRONG, Rows, bullet, heading, line, listing, to_stdout


def show_summary(summary: Summary | DirectorySummary, console: Console | None = None) -> None:
    """Print what a run, or a directory of runs, holds."""
    console = console or to_stdout()
    if isinstance(summary, Summary):
        _show_run(console, summary)
    else:
        _show_directory(console, summary)


def _show_run(console: Console, summary: Summary) -> None:
    console.print(
        line((summary.runs[0], STRONG), f"  {objective_name(summary)}", (f"  tier {summary.tier}", QUIET))
    )
    source = summary.source
    rejected = f", {fmt.plural(source.rows_rejected, 'row')} rejected" if source.rows_rejected else ""
    console.print(
        line(
            (
                f"{source.format}, {fmt.plural(source.files, 'file')}, {fmt.plural(source.rows_read, 'row')} read{rejected}",
                QUIET,
            )
        )
    )
    console.print()
    rows = Rows("", "", "")
    size = "" if summary.group_size is None else f"{summary.group_size} responses each"
    rows.add("responses", fmt.count(summary.responses), "")
    rows.add("groups", fmt.count(summary.groups), Text(size, style=QUIET))
    rows.add("steps", fmt.count(summary.steps), "")
    rows.add("tokens", fmt.count(summary.tokens), "")
    for name, e in (("reward", summary.reward), ("length", summary.length)):
        rows.add(name, fmt.estimate(e), _n(e and e.n, "responses"))
    rows.add(
        "zero-signal groups",
        fmt.percent_estimate(summary.zero_signal_share),
        _n(summary.zero_signal_share and summary.zero_signal_share.n, "groups"),
    )
    rows.add(
        "truncated",
        fmt.percent_estimate(summary.truncated_share),
        _n(summary.truncated_share and summary.truncated_share.n, "responses"),
    )
    rows.add(
        "correct",
        fmt.percent_estimate(summary.correct_share),
        _n(summary.correct_share and summary.correct_share.n, "responses"),
    )
    rows.print(console)
    console.print(line(("  intervals: 95 %, clustered by prompt", QUIET)))
    reasons = [f"{n} × {reason}" for reason, n in source.rejected.items()]
    for title, items in (
        ("Rejected rows", reasons),
        ("Files not read", source.files_skipped),
        ("Notes", summary.notes),
    ):
        if items:
            heading(console, title)
            listing(console, items)
    _show_skipped(console, summary.skipped, Counter())


def _n(n: int | None, of: str) -> Text:
    return Text("" if n is None else f"n = {fmt.count(n)} {of}", style=QUIET)


def objective_name(summary: Summary) -> str:
    """Return the name of the declared objective, or say that none is declared."""
    return fmt.visible(summary.objective.get("name", "custom")) if summary.objective else "none declared"


def _show_directory(console: Console, summary: DirectorySummary) -> None:
    counts = f"{fmt.plural(len(summary.per_run), 'run')}, {fmt.plural(summary.responses, 'response')}"
    console.print(
        line((counts, STRONG), (f", {len(summary.broken)} cannot be read" if summary.broken else "", BAD))
    )
    what, came = _tables(summary)
    what.print(console)
    heading(console, "Outcomes", "means with 95 % intervals by prompt; n as above (groups for zero-signal)")
    came.print(console)
    if summary.broken:
        heading(console, "Cannot be read")
        for broken in summary.broken:
            bullet(console, (broken.path, STRONG), f": {broken.error}")
    if summary.source.files_skipped:
        heading(console, "Files not read")
        listing(console, summary.source.files_skipped)
    per_check = Counter((skip.check, skip.needs) for one in summary.per_run for skip in one.skipped)
    _show_skipped(console, summary.skipped, per_check, len(summary.per_run))


def _tables(summary: DirectorySummary) -> tuple[Rows, Rows]:
    numbers = ("responses", "groups", "steps", "tokens", "tier")
    what = Rows("run", "format", "objective", *numbers, right=numbers, indent=0)
    came = Rows("run", "reward", "length", "zero-signal", indent=0)
    for one in summary.per_run:
        name = Text(fmt.visible(one.runs[0]), style=STRONG)
        counts = [fmt.count(n) for n in (one.responses, one.groups, one.steps, one.tokens, one.tier)]
        what.add(name, one.source.format, objective_name(one), *counts)
        came.add(
            name,
            fmt.estimate(one.reward),
            fmt.estimate(one.length),
            fmt.percent_estimate(one.zero_signal_share),
        )
    return what, came


def _show_skipped(
    console: Console, skipped: list[Skipped], per_check: Counter[tuple[str, str]], runs: int = 0
) -> None:
    if not skipped:
        return
    heading(console, "Not possible with this log" if not runs else "Not possible", "missing column")
    for skip in skipped:
        n = per_check[skip.check, skip.needs]
        where = f" ({n} of {runs} runs)" if runs else ""
        bullet(console, skip.check, (f": needs {skip.needs}{where}", QUIET))
