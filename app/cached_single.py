"""What the pages of one run ask for beyond the analyses, kept in memory as in :mod:`audit.app.cached`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st
from audit.app.cached import Key, key_of, open_key
from audit.app.listing import Listed

from audit.analyses.clip_curve import ClipCurve, clip_curve
from audit.analyses.fitted import own_objective
from audit.analyses.length_course import LengthCourses, length_courses
from audit.analyses.length_ecdf import LengthDistributions, length_distributions
from audit.analyses.prompt_course import PromptCourse, prompt_course
from audit.analyses.prompt_factor import Factor, prompt_factors
from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.objectives.objective import Objective, from_dict

_RATES = [at / 50 for at in range(51)]


def _clip_curve(run: Run) -> ClipCurve:
    rows = RunRows.read(run)
    objective, why = own_objective(rows)
    if objective is None:
        raise AuditError(" ".join(why))
    return clip_curve(rows, objective)


_OF_RUN: dict[str, Callable[[Run], Any]] = {
    "lengths": lambda run: length_distributions(RunRows.read(run)),
    "courses": lambda run: length_courses(RunRows.read(run)),
    "clip curve": _clip_curve,
}


@st.cache_data(max_entries=512, show_spinner="Reading the log…")
def _of_run(root: str, key: Key, kind: str) -> Any:
    try:
        return _OF_RUN[kind](open_key(root, key))
    except AuditError as error:
        return str(error)


def lengths(root: Path, listed: Listed) -> LengthDistributions | str:
    """Return how lengths are distributed in the thirds of a run, or the error as text."""
    result: LengthDistributions | str = _of_run(str(root), key_of(listed), "lengths")
    return result


def courses(root: Path, listed: Listed) -> LengthCourses | str:
    """Return how lengths moved over a run, or the error as text."""
    result: LengthCourses | str = _of_run(str(root), key_of(listed), "courses")
    return result


def curve_of_clip(root: Path, listed: Listed) -> ClipCurve | str:
    """Return the clip-zeroed share over epsilon, or the error as text."""
    result: ClipCurve | str = _of_run(str(root), key_of(listed), "clip curve")
    return result


@st.cache_data(max_entries=256, show_spinner=False)
def _course(root: str, key: Key, prompt_id: str) -> PromptCourse | str:
    try:
        return prompt_course(open_key(root, key), prompt_id)
    except AuditError as error:
        return str(error)


def course(root: Path, listed: Listed, prompt_id: str) -> PromptCourse | str:
    """Return how a prompt fared over a run, or the error as text."""
    return _course(str(root), key_of(listed), prompt_id)


@st.cache_data(max_entries=256, show_spinner=False)
def _factors(objective: str, group_size: int) -> list[Factor]:
    try:
        return prompt_factors(from_dict(json.loads(objective)), group_size, _RATES)
    except AuditError:
        # Advantages do not follow from the rewards of one group: the page's list of skips says so.
        return []


def factors(objective: Objective, group_size: int) -> list[Factor]:
    """Return the exact prompt-weight factor at success rates from 0 to 1; none where there is none."""
    return _factors(json.dumps(objective.to_dict(), sort_keys=True), group_size) if group_size > 1 else []
