"""``rlaudit explain`` on one screen: the verdict, then what it rests on."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from audit.analyses.effect import ObjectiveEffect
from audit.analyses.explain import Explanation, RunId
from audit.analyses.findings import Cause, Effect
from audit.report import format as fmt
from audit.report.consequences import consequence
from audit.report.text.shared import (
    BAD,
    DOUBT,
    GOOD,
    QUIET,
    STRONG,
    Rows,
    bar,
    heading,
    line,
    listing,
    to_stdout,
)
from audit.report.words import cause_in_words, inferred_in_words, moved

_MOST_DIFFERENCES = 6
_BAR = 12


def show_explanation(explanation: Explanation, console: Console | None = None) -> None:
    """Print why two runs disagree."""
    console = console or to_stdout()
    for side, run, declared in zip(
        "AB", explanation.runs, (explanation.declared.a, explanation.declared.b), strict=True
    ):
        console.print(_run(side, run, declared))
    _verdict(console, explanation)
    _causes(console, explanation)
    _declared(console, explanation)
    _inferred(console, explanation)
    _effects(console, explanation)
    _outcomes(console, explanation.outcomes)
    if explanation.skipped:
        heading(console, "Skipped")
        listing(console, explanation.skipped, most=4)


def _run(side: str, run: RunId, declared: dict[str, object] | None) -> Text:
    name = declared.get("name", "") if declared else "no objective declared"
    facts = f"{fmt.plural(run.responses, 'response')}, {fmt.plural(run.steps, 'step')}, tier {run.tier}"
    return line((f"{side}  ", STRONG), (run.id, STRONG), f"  {name}", (f"  {facts}", QUIET))


def _verdict(console: Console, explanation: Explanation) -> None:
    verdict = explanation.verdict
    body = line((verdict.text, STRONG))
    if verdict.preliminary:
        body.append("\npreliminary: one seed a side", style=DOUBT)
    console.print()
    console.print(Padding(body, (0, 0, 0, 2)))


def _causes(console: Console, explanation: Explanation) -> None:
    causes = explanation.verdict.causes
    if not causes:
        return
    n = next((cause.evidence.get("responses") for cause in causes if cause.share is not None), None)
    about = f"share of the difference in token weights, n = {fmt.count(n)} responses" if n else ""
    heading(console, "Causes", about)
    rows = Rows("cause", "share", "", "95 % interval", "confidence", right=("share",))
    for cause in causes:
        rows.add(*_cause_cells(console, cause), note=cause_in_words(cause))
    rows.print(console)


def _cause_cells(console: Console, cause: Cause) -> list[Text | str]:
    if cause.share is None:
        return [
            Text(cause.id, style=STRONG),
            "",
            Text("not measured in weights", style=QUIET),
            "",
            _sure(cause),
        ]
    return [
        Text(cause.id, style=STRONG),
        fmt.percent(cause.share),
        bar(console, cause.share, cause.low, cause.high, _BAR),
        fmt.percent_interval(cause.low, cause.high),
        _sure(cause),
    ]


def _sure(cause: Cause) -> Text:
    style = GOOD if cause.confidence >= 0.9 else DOUBT if cause.confidence >= 0.7 else BAD
    return Text(fmt.confidence(cause.confidence), style=style)


def _declared(console: Console, explanation: Explanation) -> None:
    declared = explanation.declared
    if declared.a is None or declared.b is None:
        heading(console, "Declared")
    else:
        same = "" if declared.differs else "both declare the same objective"
        heading(console, "Declared differences", same)
    rows = Rows("field", "A", "B")
    for difference in declared.differs[:_MOST_DIFFERENCES]:
        rows.add(
            difference.field,
            fmt.setting(difference.a),
            fmt.setting(difference.b),
            note=consequence(difference.field, difference.a, difference.b),
        )
    if declared.differs:
        rows.print(console)
    left = len(declared.differs) - _MOST_DIFFERENCES
    if left > 0:
        console.print(line((f"  and {fmt.plural(left, 'field')} more: see --json or -o report.html", QUIET)))
    listing(console, declared.notes, most=2)


def _inferred(console: Console, explanation: Explanation) -> None:
    heading(console, "What the logged advantages fit")
    rows = Rows("", "")
    for side, inference in zip("AB", (explanation.inferred.a, explanation.inferred.b), strict=True):
        words = inferred_in_words(inference)
        style = BAD if inference.agrees is False else ""
        rows.add(Text(side), line((words, style if inference.n else QUIET)))
    rows.print(console)


def _effects(console: Console, explanation: Explanation) -> None:
    if not explanation.effects:
        return
    heading(console, "Objective effect", "both objectives on the same rollouts; 95 % intervals by prompt")
    rows = Rows(
        "on", "1 - cosine", "size of B's weights", "responses", "tokens", right=("responses", "tokens")
    )
    for effect in explanation.effects:
        rows.add(
            _on(effect, explanation.runs),
            fmt.estimate(effect.distance),
            fmt.factor_estimate(effect.log_scale),
            fmt.count(effect.distance.n),
            fmt.count(effect.tokens),
        )
    rows.print(console)


def _on(effect: ObjectiveEffect, runs: list[RunId]) -> str:
    if len(effect.on) > 1:
        return "both, pooled"
    return "A's rollouts" if effect.on[0] == runs[0].id else "B's rollouts"


def _outcomes(console: Console, outcomes: list[Effect]) -> None:
    if not outcomes:
        return
    heading(console, "Outcomes", "95 % intervals by prompt; they do not cover seed noise")
    rows = Rows("", "A", "B", "B - A", "", "n in A", "n in B", right=("A", "B", "n in A", "n in B"))
    for effect in outcomes:
        decimals = fmt.decimals_for(effect.difference, effect.low, effect.high)
        rows.add(
            effect.name,
            fmt.number(effect.a, decimals=decimals),
            fmt.number(effect.b, decimals=decimals),
            fmt.interval(effect.difference, effect.low, effect.high, sign=True),
            Text(moved(effect), style=DOUBT if moved(effect) == "apart" else QUIET),
            *(fmt.count(n) for n in effect.n),
        )
    rows.print(console)
