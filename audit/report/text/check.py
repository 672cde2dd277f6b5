"""``rlaudit check``: problems by severity, and what the log covers."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from audit.analyses.check import Check, Coverage
from audit.report import format as fmt
from audit.report.text.shared import GOOD, QUIET, SEVERITY, STRONG, bullet, heading, line, to_stdout
from audit.report.words import inferred_in_words
from audit.schema import Problem

_PLURAL = {"error": "error", "warning": "warning", "info": "remark"}


def show_check(check: Check, console: Console | None = None) -> None:
    """Print what is wrong with a log, or what was checked and found right."""
    console = console or to_stdout()
    console.print(line((check.run, STRONG), (f"  tier {check.tier}", QUIET)))
    console.print(line((_coverage(check.coverage), QUIET)))
    console.print()
    if check.problems:
        console.print(_counts(check.problems))
        for problem in check.problems:
            _problem(console, problem)
    else:
        console.print(line(("No problems found.", f"bold {GOOD}")))
        bullet(console, ("checked: files, types, nulls, ids, groups, token lists, log-probs", QUIET))
    if check.inferred is not None:
        heading(console, "What the logged advantages fit")
        bullet(console, inferred_in_words(check.inferred))
    if check.skipped:
        heading(console, "Not checked", "the log lacks the column")
        for skip in check.skipped:
            bullet(console, skip.check, (f": needs {skip.needs}", QUIET))


def _coverage(coverage: Coverage) -> str:
    said = fmt.plural(coverage.responses, "response")
    if coverage.first_step is not None:
        said += f", {fmt.plural(coverage.steps, 'step')} from {coverage.first_step} to {coverage.last_step}"
        said += f", {coverage.missing_steps} missing between" if coverage.missing_steps else ", none missing"
    return f"{said}, {fmt.plural(len(coverage.columns), 'column')}"


def _counts(problems: list[Problem]) -> Text:
    made = Text()
    for severity, noun in _PLURAL.items():
        n = sum(problem.severity == severity for problem in problems)
        if n:
            made.append(", " if made.plain else "")
            made.append(fmt.plural(n, noun), style=SEVERITY[severity])
    return made


def _problem(console: Console, problem: Problem) -> None:
    where = [f"column {problem.column}"] if problem.column else []
    if problem.rows:
        where.append(fmt.plural(problem.rows, "response"))
    if problem.steps:
        where.append("steps " + ", ".join(str(step) for step in problem.steps))
    if problem.certainty != "certain":
        where.append(problem.certainty)
    console.print()
    title = (f"{problem.severity:<7}  ", SEVERITY[problem.severity])
    console.print(line(title, (problem.id, STRONG), (f"  {', '.join(where)}" if where else "", QUIET)))
    bullet(console, problem.summary, mark=" ", indent=7)
    if problem.hint:
        bullet(console, (problem.hint, QUIET), mark="→", indent=7)
