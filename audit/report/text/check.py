"""``rlaudit check``: problems by severity, and what the log covers."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from audit.analyses.check import Check, Coverage
from audit.report import format as fmt
from audit.report.text.shared import GOOD, QUIET, SEVERITY, STRONG, Page, line
from audit.report.words import inferred_in_words
from audit.schema import Problem

_NOUNS = {"error": "error", "warning": "warning", "info": "remark"}
_CHECKED = (
    "files, manifest, columns and types, nulls, keys, groups, baselines, prompts, rewards, token lists, "
    "masks, ends, log-probs, KL"
)


def show_check(check: Check, console: Console | None = None) -> None:
    """Print what is wrong with a log, or what was checked and found right."""
    page = Page(console)
    page.say((check.run, STRONG), (f"  tier {check.tier}", QUIET))
    page.say((_coverage(check.coverage), QUIET))
    page.gap()
    if check.problems:
        page.say(_counts(check.problems))
    else:
        page.say(("No problems found.", f"bold {GOOD}"))
    page.say((f"checked: {_CHECKED}", QUIET))
    for problem in check.problems:
        _problem(page, problem)
    if check.inferred is not None:
        page.heading("Logged advantages")
        page.bullet(inferred_in_words(check.inferred))
    if check.skipped:
        page.heading("Not checked", "what the log lacks")
        for skip in check.skipped:
            page.bullet(skip.check, (f": needs {skip.needs}", QUIET))
    page.print()


def _coverage(coverage: Coverage) -> str:
    said = fmt.plural(coverage.responses, "response")
    if coverage.first_step is not None:
        said += f", {fmt.plural(coverage.steps, 'step')} from {coverage.first_step} to {coverage.last_step}"
        said += f", {coverage.missing_steps} missing between" if coverage.missing_steps else ", none missing"
    return f"{said}, {fmt.plural(len(coverage.columns), 'column')}"


def _counts(problems: list[Problem]) -> Text:
    counted = [(sum(p.severity == severity for p in problems), severity) for severity in _NOUNS]
    made = [Text(fmt.plural(n, _NOUNS[severity]), SEVERITY[severity]) for n, severity in counted if n]
    return Text(", ").join(made)


def _problem(page: Page, problem: Problem) -> None:
    where = [f"column {problem.column}"] if problem.column else []
    if problem.rows:
        where.append(fmt.plural(problem.rows, "response"))
    if problem.steps:
        where.append("steps " + ", ".join(str(step) for step in problem.steps))
    if problem.certainty != "certain":
        where.append(problem.certainty)
    page.gap()
    severity = Text(problem.severity, SEVERITY[problem.severity])
    page.say(line((problem.id, STRONG), (f"  {', '.join(where)}", QUIET)), indent=9, first=severity)
    page.say(problem.summary, indent=9)
    if problem.hint:
        page.bullet((problem.hint, QUIET), mark="→", indent=9)
