"""``rlaudit length``: is length rewarded by accident?"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from audit.analyses.length import LengthBias
from audit.analyses.length_rows import SIDES
from audit.report import format as fmt
from audit.report.length_words import alike, confounds, laws, legend, measured_on, moved_with, skips
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, QUIET, STRONG, Page, styled
from audit.stats import Estimate


def show_length(bias: LengthBias, console: Console | None = None) -> None:
    """Print how weight depends on length, what that pushes for, and how lengths moved."""
    page = Page(console)
    under = bias.objective or fmt.NO_OBJECTIVE
    page.say((bias.run, STRONG), f"  {under}", (f"  correct is: {bias.correct_is}", QUIET))
    page.gap()
    page.say((bias.verdict, STRONG))
    _weights(page, bias)
    _lengths(page, bias)
    _objectives(page, bias)
    _confounds(page, bias)
    if bias.doubts:
        page.heading("Doubts")
        for doubt in bias.doubts:
            page.bullet((doubt, DOUBT))
    page.gap()
    page.say((legend(bias), QUIET))
    page.print()


def _weights(page: Page, bias: LengthBias) -> None:
    page.gap()
    rows = Rows("Weight per token", "slope", "n", right=(2,))
    for name, e in laws(bias.slope):
        rows.add(name, _signed(e), fmt.count(e.n))
    rows.add_to(page)
    if bias.remedy is not None:
        page.gap()
        rows = Rows("Remedy", "slope", "push correct", "wrong", "n", right=(4,))
        push = bias.remedy.pressure
        shown = [_signed(e) for e in (bias.remedy.slope, push.correct, push.wrong)]
        how = " ".join(f"--set {change}" for change in bias.remedy.set)
        rows.add("checked here", *shown, fmt.count(bias.remedy.slope.n), note=how)
        rows.add_to(page)


def _lengths(page: Page, bias: LengthBias) -> None:
    page.gap()
    rows = Rows("Length", "push", "n", "drift", "Theil-Sen", "n", right=(2, 5))
    for name in SIDES:
        push, drift, trend = (getattr(part, name) for part in (bias.pressure, bias.drift, bias.trend))
        moved = (_signed(drift), _signed(trend.theil_sen))
        rows.add(name, _signed(push), fmt.count(push.n), *moved, fmt.count(drift.n))
    rows.add_to(page)
    if bias.push_and_drift is None:
        return
    page.gap()
    rows = Rows("Push against drift", "", "correlation", "of increments", "Mann-Kendall", whole=(4,))
    for name in SIDES:
        both, trend = getattr(bias.push_and_drift, name), getattr(bias.trend, name)
        test = fmt.NOTHING if trend.p is None else f"p {fmt.number(trend.p)}"
        rows.add(name, moved_with(both), fmt.estimate(both.correlation), fmt.estimate(both.increments), test)
    rows.add_to(page)


def _objectives(page: Page, bias: LengthBias) -> None:
    if not bias.per_objective:
        return
    page.gap()
    rows = Rows("Push under", "slope", "correct", "wrong", "n", right=(4,), whole=(0, 1))
    own = bias.pressure
    shown = [_signed(e) for e in (bias.slope.all, own.correct, own.wrong)]
    rows.add(styled(f"{bias.objective} *", STRONG), *shown, fmt.count(own.all.n))
    for names, entry in alike(bias.per_objective):
        if entry.pressure is not None and entry.slope is not None:
            shown = [_signed(e) for e in (entry.slope, entry.pressure.correct, entry.pressure.wrong)]
            first, others = names[0], len(names) - 1
            said = (f"{first} + {others} more" if others else first) + measured_on(entry)
            note = ", ".join(names) if others else ""
            rows.add(said, *shown, fmt.count(entry.pressure.all.n), note=note)
    rows.add_to(page)


def _confounds(page: Page, bias: LengthBias) -> None:
    page.gap()
    rows = Rows("What else moves length", "", "n", right=(2,))
    for name, shown, n in confounds(bias):
        rows.add(name, shown, fmt.count(n))
    rows.add_to(page)
    if skipped := skips(bias):
        page.heading("Skipped")
        page.listing(skipped)


def _signed(e: Estimate) -> Text:
    shown = fmt.estimate(e, sign=True)
    return Text(shown, STRONG if e.excludes(0.0) and not shown.startswith("0 ") else "")
