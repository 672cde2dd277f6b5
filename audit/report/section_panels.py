"""Charts of a report's sections: a result in, what the dashboard draws of it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

from audit.analyses.clipping import Clipping
from audit.analyses.distances import DistanceMatrix
from audit.analyses.explain import Explanation
from audit.analyses.explain_many import ManyExplanation
from audit.analyses.kl_estimates import KLReport
from audit.analyses.length import LengthBias
from audit.analyses.mismatch import Mismatch
from audit.analyses.prompts import PromptBreakdown
from audit.analyses.rewards import RewardBreakdown
from audit.analyses.staleness import StalenessBreakdown
from audit.analyses.timeline import Course
from audit.analyses.zero_groups import GroupBreakdown
from audit.report import many_words
from audit.report.breakdown_charts import component_shares, lag_over_steps
from audit.report.charts import Chart
from audit.report.curves_chart import curve_chart
from audit.report.length_panels import drift_panel, push_panel, pushes_panel
from audit.report.matrix_chart import matrix_chart
from audit.report.panels import GREY, parts_panel, trend_panel
from audit.report.policy_panels import beta_panel, kl_panel
from audit.report.prompt_panels import factor_panel, lorenz_panel, objective_colours, sizes_panel, zero_panel
from audit.report.text import clipping as clipping_text
from audit.report.text import mismatch as mismatch_text
from audit.report.timeline_chart import course_curves, parting_chart
from audit.report.waterfall_chart import waterfall_chart
from audit.report.words import at_steps

MOST_METRICS = 6
"""Metrics of two runs that are drawn over steps, those that parted first; all are in the text."""
_CATALOGUE = ("grpo", "dr_grpo", "rloo")
"""Objectives that prompts are drawn under beside the run's own."""
Colours = Sequence[str]
"""Of the runs of a section, in their order."""


class Panel(NamedTuple):
    """One chart under its title."""

    title: str
    draw: Callable[[], Chart]
    """Raises AuditError where there is nothing to draw."""
    legend: Mapping[str, str] = {}
    """Run to colour, where colours tell its lines apart."""
    wide: bool = False


@singledispatch
def panels_of(_result: object, _colours: Colours) -> list[Panel]:
    """Return what is drawn of a result; nothing of one that is told in words alone."""
    return []


@panels_of.register
def _explanation(result: Explanation, colours: Colours) -> list[Panel]:
    whole = max(result.effects, key=lambda effect: (len(effect.parts), len(effect.on)), default=None)
    made = []
    if whole is not None:
        made.append(Panel("What turns the weights", lambda: waterfall_chart(whole)))
    if any(course.moments for course in result.timeline.courses):
        made.append(Panel("Which metric parted first", lambda: parting_chart(result.timeline)))
    # The letters tell runs of one name apart.
    named = {f"{side} {run.id}": colour for side, run, colour in zip("AB", result.runs, colours, strict=True)}
    return made + [_course(course, named) for course in result.timeline.parted[:MOST_METRICS]]


def _course(course: Course, colours: Mapping[str, str]) -> Panel:
    at = course.moments[course.parted or 0]
    return Panel(
        f"{course.metric}: {at_steps(course)}",
        lambda: curve_chart(
            list(zip(colours, course_curves(course), strict=True)),
            colours,
            parted=(at.first_step, at.last_step),
        ),
        colours,
    )


@panels_of.register
def _many(result: ManyExplanation, _colours: Colours) -> list[Panel]:
    held = {"objectives": result.objective, "outcomes": result.outcome}
    return [_matrix(f"Distance of the {name}", m, result) for name, m in held.items() if m is not None]


def _matrix(title: str, matrix: DistanceMatrix, result: ManyExplanation) -> Panel:
    return Panel(title, lambda: matrix_chart(matrix, many_words.order(result)), wide=True)


@panels_of.register
def _length(result: LengthBias, _colours: Colours) -> list[Panel]:
    return [
        Panel("Cumulative push of the weights", lambda: push_panel(result)),
        Panel("Observed length", lambda: drift_panel(result)),
        Panel("Push of every objective on the same rollouts", lambda: pushes_panel(result)),
    ]


@panels_of.register
def _groups(result: GroupBreakdown, colours: Colours) -> list[Panel]:
    colour = colours[0]
    return [
        Panel("Groups without signal over steps", lambda: zero_panel(result, colour)),
        Panel("At other group sizes", lambda: sizes_panel(result, colour)),
    ]


@panels_of.register
def _prompts(result: PromptBreakdown, colours: Colours) -> list[Panel]:
    names = [each.objective for each in result.shares]
    drawn = {
        name: colour
        for name, colour in objective_colours(result.objective, names, colours[0]).items()
        if name == result.objective or name in _CATALOGUE
    }
    return [
        Panel("Weight of a prompt by success rate", lambda: factor_panel(result, {}, drawn)),
        Panel("How unequal the gradient is between prompts", lambda: lorenz_panel(result, drawn)),
    ]


@panels_of.register
def _clipping(result: Clipping, colours: Colours) -> list[Panel]:
    if result.share is None:
        return []
    colour, value, whole = colours[0], "clip-zeroed share", result.share.value
    over = Panel("Over steps", lambda: trend_panel(result.steps, colour, value, percent=True))
    # By side each part is of all tokens: their sum is the whole, and no rule divides them.
    return [over] + [
        Panel(
            title,
            lambda b=buckets, w=None if name == "side" else whole: parts_panel(  # type: ignore[misc]
                b, colour, value, percent=True, whole=w
            ),
        )
        for name, title, buckets in _by(clipping_text.TITLES, result.by)
    ]


@panels_of.register
def _kl(result: KLReport, colours: Colours) -> list[Panel]:
    colour, made = colours[0], []
    for of in ("theta", "old"):
        names = (f"{of}_ref_k3", f"{of}_ref_k1")
        if names[0] in result.trends:
            made.append(
                Panel(
                    f"KL({of} ‖ ref) over steps",
                    lambda n=names: kl_panel(result, n, ("k3", "k1"), (colour, GREY)),  # type: ignore[misc]
                )
            )
    if "drift_k3" in result.trends:
        made.append(
            Panel("KL(old ‖ theta) over steps", lambda: kl_panel(result, ("drift_k3",), ("k3",), (colour,)))
        )
    drift, placed = result.drift, result.placement
    if drift is not None and len(drift.by_update) > 1:
        made.append(
            Panel("Drift by inner update", lambda: parts_panel(drift.by_update, colour, "nats per token"))
        )
    if placed is not None and placed.by_rate:
        made.append(
            Panel(
                "Weight of the KL next to the reward",
                lambda: beta_panel(placed.by_rate, colour, placed.coefficient),
            )
        )
    return made


@panels_of.register
def _mismatch(result: Mismatch, colours: Colours) -> list[Panel]:
    gap = result.gap
    if gap is None:
        return []
    colour, value = colours[0], "mean |g|, nats per token"
    return [Panel("Over steps", lambda: trend_panel(result.steps, colour, value))] + [
        Panel(title, lambda b=buckets: parts_panel(b, colour, value, whole=gap.size.value))  # type: ignore[misc]
        for _, title, buckets in _by(mismatch_text.TITLES, result.by)
    ]


@panels_of.register
def _staleness(result: StalenessBreakdown, _colours: Colours) -> list[Panel]:
    return [] if result.lag is None else [Panel("Versions behind over steps", lambda: lag_over_steps(result))]


@panels_of.register
def _rewards(result: RewardBreakdown, _colours: Colours) -> list[Panel]:
    if result.signal is None or len(result.signal.shares) < 2:
        return []
    return [Panel("What the variance within groups is made of", lambda: component_shares(result))]


def _by(titles: Mapping[str, str], by: Mapping[str, Sequence[Any]]) -> list[tuple[str, str, Sequence[Any]]]:
    """Breakdowns of more than one part: key, title, parts."""
    return [(name, title, by[name]) for name, title in titles.items() if len(by.get(name, ())) > 1]
