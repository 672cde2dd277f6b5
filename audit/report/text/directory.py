"""The runs of a directory side by side."""

from __future__ import annotations

from audit.analyses.directory import DirectorySummary
from audit.analyses.summary import Summary
from audit.report import format as fmt
from audit.report.text.rows import Rows
from audit.report.text.shared import BAD, QUIET, STRONG, Page, styled

_COUNTS = ("responses", "groups", "steps", "tokens", "tier")


def add_directory(page: Page, summary: DirectorySummary) -> None:
    """Add every run with its counts and outcomes, then the runs and files that cannot be read."""
    page.say(
        (fmt.plural(len(summary.per_run), "run"), STRONG),
        f", {fmt.plural(summary.responses, 'response')}",
        (f", {fmt.plural(len(summary.broken), 'run')} cannot be read" if summary.broken else "", BAD),
    )
    page.gap()
    same, titles = _shared_format(summary)
    what = Rows("Runs", *titles, "objective", *_COUNTS, right=_right(2 + len(titles)))
    came = Rows("Outcomes", "reward", "length", "n", "zero-signal", right=(3,))
    for one in summary.per_run:
        name = styled(one.runs[0], STRONG)
        what.add(name, *_counts(one, titles))
        came.add(name, *_outcomes(one))
    what.add_to(page)
    if same:
        page.say((f"all in {same} format", QUIET), indent=2)
    page.gap()
    came.add_to(page)
    page.say(
        ("n: responses in the first pass over a batch; zero-signal: share of the groups", QUIET), indent=2
    )
    if summary.broken:
        page.heading("Cannot be read")
        for broken in summary.broken:
            page.bullet((broken.path, STRONG), f": {broken.error}")
    if summary.source.files_skipped:
        page.heading("Files left out")
        page.listing(summary.source.files_skipped)


def _shared_format(summary: DirectorySummary) -> tuple[str, tuple[str, ...]]:
    """The format, where all runs have one; else the title of its column."""
    formats = {one.source.format for one in summary.per_run}
    return (formats.pop(), ()) if len(formats) == 1 else ("", ("format",))


def _right(first: int) -> range:
    return range(first, first + len(_COUNTS))


def _counts(one: Summary, titles: tuple[str, ...]) -> list[str]:
    own = [one.source.format] if titles else []
    numbers = (one.responses, one.groups, one.steps, one.tokens, one.tier)
    return [*own, fmt.objective_name(one.objective), *(fmt.count(n) for n in numbers)]


def _outcomes(one: Summary) -> list[str]:
    n = [e.n for e in (one.reward, one.length) if e is not None]
    return [
        fmt.estimate(one.reward),
        fmt.estimate(one.length),
        " / ".join(fmt.count(each) for each in dict.fromkeys(n)),
        fmt.percent_estimate(one.zero_signal_share),
    ]
