"""``rlaudit length``: is length rewarded by accident?"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from audit.analyses.length import LengthBias, Pressure
from audit.report import format as fmt
from audit.report.text.rows import Rows
from audit.report.text.shared import DOUBT, QUIET, STRONG, Page, styled
from audit.stats import Estimate

_LEGEND = (
    "slope: of log |w / A| per token on log length; -1 is 1/|o|, 0 is no dependence. Push: how far the "
    "weights move the mean length, in tokens per unit of mean |w|; * under this run's objective. Drift: "
    "tokens from the first step to the last, within prompt. n: responses. Intervals: 95 %, resampling "
    "prompts; strong where they exclude 0."
)


def show_length(bias: LengthBias, console: Console | None = None) -> None:
    """Print how weight depends on length, what that pushes for, and how lengths moved."""
    page = Page(console)
    page.say((bias.run, STRONG), f"  {bias.objective}", (f"  correct is: {bias.correct_is}", QUIET))
    page.gap()
    page.say((bias.verdict, STRONG))
    _measured(page, bias)
    _objectives(page, bias)
    if bias.doubts:
        page.heading("Doubts")
        for doubt in bias.doubts:
            page.bullet((doubt, DOUBT))
    page.gap()
    page.say((_LEGEND, QUIET))
    page.print()


def _measured(page: Page, bias: LengthBias) -> None:
    page.gap()
    rows = Rows("Weight per token", "slope", "n", right=(2,))
    for name, e in (("advantage > 0", bias.slope.positive), ("advantage < 0", bias.slope.negative)):
        rows.add(name, _signed(e), fmt.count(e.n))
    rows.add_to(page)
    page.gap()
    rows = Rows("Length", "push", "n", "drift", "n", right=(2, 4))
    for name in ("correct", "wrong", "all"):
        push, drift = getattr(bias.pressure, name), getattr(bias.drift, name)
        rows.add(name, _signed(push), fmt.count(push.n), _signed(drift), fmt.count(drift.n))
    rows.add_to(page)


def _objectives(page: Page, bias: LengthBias) -> None:
    page.gap()
    rows = Rows("Push under", "correct", "wrong", "all", "n", right=(4,))
    listed = {entry.objective for entry in bias.per_objective}
    if bias.objective not in listed:
        rows.add(styled(f"{bias.objective} *", STRONG), *_pressures(bias.pressure))
    skipped = []
    for entry in bias.per_objective:
        own = entry.objective == bias.objective
        if entry.pressure is None:
            skipped.append(f"{entry.objective}: {entry.skipped}")
        else:
            name = styled(f"{entry.objective} *", STRONG) if own else entry.objective
            rows.add(name, *_pressures(entry.pressure))
    rows.add_to(page)
    if skipped:
        page.heading("Skipped")
        page.listing(skipped)


def _pressures(pressure: Pressure) -> list[Text | str]:
    sides = (pressure.correct, pressure.wrong, pressure.all)
    return [*(_signed(e) for e in sides), fmt.count(pressure.all.n)]


def _signed(e: Estimate) -> Text:
    shown = fmt.estimate(e, sign=True)
    return Text(shown, STRONG if e.excludes(0.0) and not shown.startswith("0 ") else "")
