"""The timeline in the terminal, in HTML and in Markdown: what parts, when, and what cannot be seen."""

from __future__ import annotations

import re

import msgspec
import pytest
from hostile_text import HOSTILE

from audit.analyses.findings import Unseen
from audit.report.files import as_html, as_markdown
from audit.report.text import show_explanation
from audit.report.timeline_svg import course_chart
from audit.report.words import at_steps, parting


@pytest.fixture
def parted(explanation):
    """The same runs, with a reward that parts at the third moment."""
    replace = msgspec.structs.replace
    course = next(c for c in explanation.timeline.courses if c.metric == "reward")
    others = [c for c in explanation.timeline.courses if c.metric != "reward"]
    reward = replace(course, state="parted", parted=2)
    timeline = replace(explanation.timeline, courses=[reward, *others])
    unseen = [Unseen("staleness", f"sampler_version in {HOSTILE}")]
    verdict = replace(explanation.verdict, not_identifiable=unseen)
    return replace(explanation, timeline=timeline, verdict=verdict)


def test_what_parts_is_shown_with_its_steps_interval_and_n(parted, shown) -> None:
    moment = parted.timeline.courses[0].moments[2]
    steps = at_steps(parted.timeline.courses[0])
    assert str(moment.first_step) in steps
    said = shown(show_explanation, parted, width=200)
    (line,) = [each for each in said.splitlines() if each.strip().startswith("reward") and steps in each]
    assert f"{moment.n[0]:,} / {moment.n[1]:,}" in line
    assert "together: " in said
    assert "staleness: needs sampler_version" in said


@pytest.mark.parametrize("make", [as_html, as_markdown])
def test_pages_hold_every_metric_and_what_cannot_be_seen(parted, make) -> None:
    page = make(parted)
    for course in parted.timeline.courses:
        assert course.metric.replace("(", "\\(").replace(")", "\\)") in page or course.metric in page
    assert at_steps(parted.timeline.courses[0]) in page
    assert "Not identifiable from these logs" in page
    assert "<img src=x" not in page.replace("\\<", "")


def test_the_chart_has_both_runs_and_the_place_where_they_part(parted) -> None:
    course = parted.timeline.courses[0]
    assert parting(course) == course.moments[2]
    chart = str(course_chart(course))
    assert chart.count("<polyline") == 2
    points = re.findall(r'class="one" points="([^"]*)"', chart)[0].split()
    assert len(points) == len(course.moments)
    third, _, _ = points[2].partition(",")
    assert f'x1="{third}"' in chart
    together = msgspec.structs.replace(course, parted=None, state="together")
    assert "<line" not in str(course_chart(together))
