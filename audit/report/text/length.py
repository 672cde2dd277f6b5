"""``rlaudit length``: is length rewarded by accident?"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from audit.analyses.length import LengthBias, Pressure
from audit.report import format as fmt
from audit.report.text.shared import DOUBT, QUIET, STRONG, Rows, bullet, heading, line, to_stdout
from audit.stats import Estimate


def show_length(bias: LengthBias, console: Console | None = None) -> None:
    """Print how weight depends on length, what that pushes for, and how lengths moved."""
    console = console or to_stdout()
    console.print(line((bias.run, STRONG), f"  {bias.objective}", (f"  correct: {bias.correct_is}", QUIET)))
    console.print()
    console.print(line((bias.verdict, STRONG)))

    heading(console, "Weight per token against length", "slope of log |w / A| on log length; -1 is 1/|o|")
    rows = Rows("", "slope [95 %]", "n", right=("n",))
    for name, e in (("A > 0", bias.slope.positive), ("A < 0", bias.slope.negative)):
        rows.add(name, fmt.estimate(e, sign=True), fmt.count(e.n))
    rows.print(console)

    heading(console, "Push and drift", "push: tokens per unit of mean |w|; drift: tokens per 100 steps")
    rows = Rows("", "push [95 %]", "n", "drift [95 %]", "n ", right=("n", "n "))
    for name in ("correct", "wrong", "all"):
        push, drift = getattr(bias.pressure, name), getattr(bias.drift, name)
        rows.add(name, _signed(push), fmt.count(push.n), _signed(drift), fmt.count(drift.n))
    rows.print(console)

    heading(console, "Push under every objective", "on the same rollouts; * is this run's")
    _objectives(console, bias)
    if bias.doubts:
        heading(console, "Doubts")
        for doubt in bias.doubts:
            bullet(console, (doubt, DOUBT))


def _objectives(console: Console, bias: LengthBias) -> None:
    rows = Rows("", "objective", "correct [95 %]", "wrong [95 %]", "all [95 %]", "n", right=("n",))
    if all(entry.objective != bias.objective for entry in bias.per_objective):
        rows.add("*", Text(fmt.visible(bias.objective), style=STRONG), *_pressures(bias.pressure))
    for entry in bias.per_objective:
        own = entry.objective == bias.objective
        name = Text(entry.objective, style=STRONG if own else "")
        if entry.pressure is None:
            rows.add("*" if own else "", name, "", "", "", "", note=f"  skipped: {entry.skipped}")
        else:
            rows.add("*" if own else "", name, *_pressures(entry.pressure))
    rows.print(console)


def _pressures(pressure: Pressure) -> list[Text | str]:
    shown: list[Text | str] = [_signed(e) for e in (pressure.correct, pressure.wrong, pressure.all)]
    return [*shown, fmt.count(pressure.all.n)]


def _signed(e: Estimate) -> Text:
    return Text(fmt.estimate(e, sign=True), style=STRONG if e.excludes(0.0) else QUIET)
