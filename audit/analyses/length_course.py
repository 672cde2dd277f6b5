"""How lengths moved over a run, prompts held fixed: what was logged, whatever objective was trained."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.length_bins import step_bins
from audit.analyses.length_path import path_of, path_sums
from audit.analyses.length_rows import SIDES, LengthRows, length_rows
from audit.facts.rows import RunRows


class LengthCourse(msgspec.Struct, frozen=True):
    """Length of one side over T bins of steps."""

    side: str
    """``correct``, ``wrong`` or ``all``."""
    step: list[float]
    """Mean step of each bin."""
    change: list[float]
    """Length less that of the first bin, prompts held fixed, in the unit of the run."""
    n: int
    """Responses."""


class LengthCourses(msgspec.Struct, frozen=True):
    """Courses of a run."""

    run: str
    unit: str
    """What lengths are counted in."""
    absolute: bool
    """Whether the log says which responses are right; else ``correct`` is above the mean of the group."""
    courses: list[LengthCourse]
    """Sides that have no response of known step, or whose bins no prompt links, have none."""
    schema: str = "rlaudit.length_courses.v1"


def length_courses(rows: RunRows) -> LengthCourses:
    """Follow the lengths of every side; see :mod:`.length_path` for what holds prompts fixed.

    Raises
    ------
    MissingColumn
        The log has no lengths of any kind.
    """
    data = length_rows(rows)
    made = [_course(data, side) for side in SIDES]
    held = [each for each in made if each is not None]
    return LengthCourses(rows.run.run_id, data.unit, data.absolute, held)


def _course(data: LengthRows, side: str) -> LengthCourse | None:
    use = data.side(side) & np.isfinite(data.step)
    bins = step_bins(data.step, use)
    times = len(bins.step)
    if not times:
        return None
    path = path_of(path_sums(data, use, bins).sum(axis=0), times)
    if np.isnan(path).any():
        return None
    return LengthCourse(side, bins.step.tolist(), path.tolist(), int(use.sum()))
