"""``rlaudit explain`` on one screen: the verdict, then what it rests on."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from audit.analyses.effect import ObjectiveEffect
from audit.analyses.explain import Explanation, RunId
from audit.analyses.findings import Cause, Effect
from audit.analyses.timeline import Timeline
from audit.report import format as fmt
from audit.report.consequences import cause_in_words
from audit.report.loss_words import loss_in_words
from audit.report.text.rows import Rows
from audit.report.text.shared import BAD, DOUBT, GOOD, QUIET, STRONG, Page, line, styled
from audit.report.told import told_differences
from audit.report.words import (
    at_steps,
    caveats,
    inferred_in_words,
    moved,
    on_rollouts,
    parting,
    skipped_in_words,
)

_LEGEND = (
    "share: of the difference between the runs' token weights; n: responses; intervals: 95 %, resampling "
    "prompts, without seed noise; confidence: heuristic"
)


def show_explanation(explanation: Explanation, console: Console | None = None) -> None:
    """Print why two runs disagree; on a terminal, with as much detail as one screen holds."""
    for detail in (3, 2, 1, 0):
        page = Page(console, dense=detail < 2)
        _lay_out(page, explanation, detail)
        if len(page.lines) <= page.room or detail == 0:
            page.print()
            return


def _lay_out(page: Page, explanation: Explanation, detail: int) -> None:
    _verdict(page, explanation)
    _runs(page, explanation)
    _causes(page, explanation.verdict.causes, notes=detail > 0)
    _declared(page, explanation, notes=detail > 2, most=20 if detail > 2 else 6)
    _inferred(page, explanation)
    _effects(page, explanation)
    _outcomes(page, explanation.outcomes)
    _timeline(page, explanation.timeline, most=10 if detail > 2 else 2, rest=detail > 0)
    if explanation.first_difference:
        page.gap()
        page.say((explanation.first_difference, QUIET), indent=9, first=Text("Rows", style=STRONG))
    if detail > 0:
        _unseen(page, explanation, most=10 if detail > 2 else 1)
    page.gap()
    if explanation.skipped:
        shown = explanation.skipped if detail > 2 else explanation.skipped[:2]
        left = len(explanation.skipped) - len(shown)
        more = f"; and {left} more" if left else ""
        listed = "; ".join(map(skipped_in_words, shown))
        page.say((f"{listed}{more}", QUIET), indent=9, first=Text("Skipped", style=STRONG))
    page.say((_LEGEND if detail > 2 else f"{_LEGEND}; all of it: -o report.html", QUIET))


def _runs(page: Page, explanation: Explanation) -> None:
    page.gap(always=True)
    for side, run, declared in zip(
        "AB", explanation.runs, (explanation.declared.a, explanation.declared.b), strict=True
    ):
        name = str(declared.get("name", "custom")) if declared else fmt.NO_OBJECTIVE
        facts = f"{fmt.plural(run.responses, 'response')}, {fmt.plural(run.steps, 'step')}, tier {run.tier}"
        page.say((run.id, STRONG), f"  {name}", (f"  {facts}", QUIET), indent=3, first=Text(side, STRONG))


def _verdict(page: Page, explanation: Explanation) -> None:
    beside = "; ".join(caveats(explanation))
    page.say((explanation.verdict.text, STRONG), (f" ({beside})" if beside else "", DOUBT))


def _causes(page: Page, causes: list[Cause], *, notes: bool) -> None:
    if not causes:
        return
    page.gap()
    rows = Rows("Causes", "share", "", "95 %", "n", "confidence", right=(1, 4))
    for cause in causes:
        rows.add(*_cause(page, cause), note=cause_in_words(cause) if notes else "")
    rows.add_to(page)


def _cause(page: Page, cause: Cause) -> list[Text | str]:
    style = GOOD if cause.confidence >= 0.9 else DOUBT if cause.confidence >= 0.7 else BAD
    sure = Text(fmt.confidence(cause.confidence), style=style)
    if cause.share is None:
        return [Text(cause.id, STRONG), fmt.NOTHING, "", fmt.NOTHING, fmt.NOTHING, sure]
    n = cause.evidence.get("responses")
    return [
        Text(cause.id, STRONG),
        fmt.percent(cause.share),
        page.bar(cause.share, cause.low, cause.high),
        fmt.percent_interval(cause.low, cause.high),
        fmt.count(n if isinstance(n, int) else None),
        sure,
    ]


def _declared(page: Page, explanation: Explanation, *, notes: bool, most: int) -> None:
    declared = explanation.declared
    told = told_differences(declared)
    page.gap()
    if not told:
        both = declared.a is not None and declared.b is not None
        page.say(("Declared", STRONG), "  no difference in the objective" if both else "")
    else:
        rows = Rows("Declared", "A", "B")
        for field, a, b, does in told[:most]:
            rows.add(field, a, b, note=does if notes else "")
        rows.add_to(page)
    left = len(told) - most
    if left > 0:
        page.bullet((f"and {fmt.plural(left, 'field')} more: see -o report.html", QUIET))
    page.listing(declared.notes, most=10 if notes else 2)


def _inferred(page: Page, explanation: Explanation) -> None:
    page.gap()
    page.say(("Logged advantages", STRONG))
    for side, inference in zip("AB", (explanation.inferred.a, explanation.inferred.b), strict=True):
        style = BAD if inference.agrees is False else "" if inference.status == "fits" else QUIET
        page.say((inferred_in_words(inference), style), indent=5, first=Text(f"  {side}"))
    losses = explanation.inferred.metrics.a, explanation.inferred.metrics.b
    if all(loss.status == "skipped" for loss in losses):
        return
    page.say(("Logged scalars", STRONG))
    for side, loss in zip("AB", losses, strict=True):
        style = BAD if loss.agrees is False else "" if loss.status == "fits" else QUIET
        page.say((loss_in_words(loss), style), indent=5, first=Text(f"  {side}"))


def _effects(page: Page, explanation: Explanation) -> None:
    if not explanation.effects:
        return
    page.gap()
    rows = Rows("Objective effect", "1 - cosine", "B's weights", "n", "tokens", right=(3, 4))
    for effect in explanation.effects:
        rows.add(*_effect(effect, explanation.runs))
    rows.add_to(page)


def _effect(effect: ObjectiveEffect, runs: list[RunId]) -> list[str]:
    return [
        f"on {on_rollouts(effect, runs)}",
        fmt.estimate(effect.distance),
        fmt.factor_estimate(effect.log_scale),
        fmt.count(effect.distance.n),
        fmt.count(effect.tokens),
    ]


def _outcomes(page: Page, outcomes: list[Effect]) -> None:
    if not outcomes:
        return
    page.gap()
    rows = Rows("Outcomes", "A", "B", "B - A", "", "n", right=(1, 2, 5))
    for effect in outcomes:
        decimals = fmt.decimals_for(effect.difference, effect.low, effect.high)
        words = moved(effect)
        rows.add(
            effect.name,
            fmt.number(effect.a, decimals=decimals),
            fmt.number(effect.b, decimals=decimals),
            fmt.interval(effect.difference, effect.low, effect.high, sign=True),
            styled(words, DOUBT if words == "apart" else QUIET),
            " / ".join(fmt.count(n) for n in effect.n),
            note=line((effect.note, QUIET)),
        )
    rows.add_to(page)


def _timeline(page: Page, timeline: Timeline, *, most: int, rest: bool) -> None:
    """Metrics in which the runs part, the first first; with ``rest``, the others in one line."""
    if not timeline.courses or not (timeline.parted or rest):
        return
    page.gap()
    if timeline.parted:
        rows = Rows("Parting", "when", "A", "B", "moved", "p", "n", right=(2, 3, 5, 6))
        for course in timeline.parted[:most]:
            moment = parting(course)
            assert moment is not None
            rows.add(
                course.metric,
                at_steps(course),
                fmt.number(moment.a),
                fmt.number(moment.b),
                fmt.interval(moment.moved, moment.low, moment.high, sign=True),
                fmt.number(moment.p),
                " / ".join(fmt.count(n) for n in moment.n),
            )
        rows.add_to(page)
    together = [course.metric for course in timeline.courses if course.state == "together"]
    if together and rest:
        title = Text("" if timeline.parted else "Parting", style=STRONG)
        before = "" if timeline.parted else "none beyond noise over the common steps; "
        listed = "; ".join(together)
        page.say((f"{before}together: {listed}", QUIET), indent=9, first=title)


def _unseen(page: Page, explanation: Explanation, *, most: int) -> None:
    """Causes that these logs cannot show, and what would."""
    unseen = explanation.verdict.not_identifiable
    if not unseen:
        return
    page.gap()
    needs: dict[str, list[str]] = {}
    for each in unseen:
        needs.setdefault(each.needs, []).append(each.cause)
    listed = [f"{', '.join(causes)}: needs {what}" for what, causes in needs.items()]
    left = len(listed) - most
    more = f"; and {left} more" if left > 0 else ""
    page.say(("; ".join(listed[:most]) + more, QUIET), indent=9, first=Text("Unseen", style=STRONG))
