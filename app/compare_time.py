"""Metrics of several runs over steps; of two, which of them parted first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from audit.app import cached, parts
from audit.app.context import Context
from audit.app.listing import Listed

from audit.analyses.metric_curves import Curve
from audit.analyses.timeline import Course, Timeline
from audit.report import format as fmt
from audit.report.curves_chart import curve_chart
from audit.report.timeline_chart import course_curves, moved_chart, parting_chart
from audit.report.words import at_steps

Curves = dict[str, list[tuple[str, Curve]]]


def show_two(context: Context, a: Listed, b: Listed, timeline: Timeline) -> None:
    """Which metric parted first, then every metric of both runs."""
    with st.container(border=True):
        first = timeline.parted[0] if timeline.parted else None
        st.markdown("**Which metric parted first**")
        if first is None:
            parts.caption("None beyond noise over the common steps.")
        parts.chart(lambda: parting_chart(timeline), "Steps from which each metric is apart", "parting")
        parts.caption(
            "Thick: from where the gap has moved beyond noise of prompts and of its own wander, false "
            f"discovery rate {timeline.level:g} over all metrics and bins; at the very start: apart from the "
            "first bin on. One run a side: a strong wander cannot be told from a cause."
        )
    curves, unread = curves_of(context, [a, b])
    courses = {course.metric: course for course in timeline.courses}
    for name, course in courses.items():
        if name not in curves and course.moments:
            # What takes an objective to tell, as the share of clipped tokens, has no curve of one run alone.
            curves[name] = list(zip((a.name, b.name), course_curves(course), strict=True))
    order = [name for name in courses if name in curves] + [name for name in curves if name not in courses]
    _grid(curves, context.colours, order, courses)
    _unread(unread)


def show_many(context: Context, runs: Sequence[Listed]) -> None:
    """Draw every metric of several runs."""
    curves, unread = curves_of(context, runs)
    _grid(curves, context.colours, list(curves), {})
    _unread(unread)


def curves_of(context: Context, runs: Sequence[Listed]) -> tuple[Curves, list[str]]:
    """Curves of each metric by run, and the runs that have none with the reason."""
    found: Curves = {}
    unread: list[str] = []
    for run in runs:
        result: Any = cached.analysis(context.root, run, "curves")
        if isinstance(result, str):
            unread.append(f"{run.name}: {result}")
            continue
        for curve in result.curves:
            found.setdefault(curve.metric, []).append((run.name, curve))
    return found, unread


def _grid(
    curves: Curves, colours: Mapping[str, str], order: Sequence[str], courses: Mapping[str, Course]
) -> None:
    if not order:
        parts.caption("These logs hold no metric over steps.")
        return
    parted = [name for name in order if name in courses and courses[name].parted is not None]
    rest = [name for name in order if name not in courses]
    rest += [name for name in order if name in courses and name not in parted]
    _cards(parted, curves, colours, courses)
    if courses and rest:
        st.markdown("**Not parted beyond noise, or not tested**")
    _cards(rest, curves, colours, courses)
    parts.caption("Bands: 95 %, resampling prompts. Each point is a bin of steps; n is in its tooltip.")


def _cards(
    names: Sequence[str], curves: Curves, colours: Mapping[str, str], courses: Mapping[str, Course]
) -> None:
    if not names:
        return
    with st.grid(min(len(names), 3), min_column_width=250):
        for metric in names:
            with st.container(border=True):
                _card(metric, curves[metric], colours, courses.get(metric))


def _card(
    metric: str, curves: list[tuple[str, Curve]], colours: Mapping[str, str], course: Course | None
) -> None:
    parted = None
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{metric}**", width="content")
        if course is not None and course.parted is not None:
            moment = course.moments[course.parted]
            parted = (moment.first_step, moment.last_step)
            st.badge(at_steps(course), color="red", icon=":material/call_split:")
        elif course is not None and course.state != "together":
            parts.caption(course.state, width="content")
    parts.chart(
        lambda: curve_chart(curves, colours, parted=parted), f"{metric} over steps", f"curve-{metric}"
    )
    if course is not None and course.parted is not None:
        moment = course.moments[course.parted]
        parts.caption("B − A, moved since the first bin")
        parts.chart(lambda: moved_chart(course), f"Gap in {metric} since the start", f"moved-{metric}")
        gap = fmt.interval(moment.moved, moment.low, moment.high, sign=True)
        n = " / ".join(map(fmt.count, moment.n))
        said = "There the gap has moved by" if course.parted else "In the first bin the gap is"
        parts.caption(f"{said} {gap}, p = {fmt.number(moment.p)} (corrected), n = {n}.")


def _unread(unread: Sequence[str]) -> None:
    if unread:
        parts.caption("No curves of:")
        st.text("\n".join(map(fmt.visible, unread)))
