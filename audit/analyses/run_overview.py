"""What is a run, in one line of a table: its summary, the objective that its log shows, and two curves."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.infer import Inference, infer
from audit.analyses.outcomes import first_pass
from audit.analyses.step_bins import step_bins
from audit.analyses.summary import Summary, summarise
from audit.errors import AuditError
from audit.facts.declared import declared_objective
from audit.facts.rows import RunRows
from audit.logs import Run
from audit.logs.kept import kept
from audit.objectives.objective import Objective

POINTS = 32
"""Bins of steps of a curve; a run with no more steps has one a step."""


class RunOverview(msgspec.Struct, frozen=True):
    """One run in one line."""

    summary: Summary
    inferred: Inference
    reward: list[float]
    """Mean of each bin of steps, those without a reward left out."""
    length: list[float]
    first_step: int | None
    last_step: int | None


def run_overview(run: Run) -> RunOverview:
    """Look at a run as a line of a table needs it; what was seen is kept until the log changes.

    Raises
    ------
    AuditError
        The log cannot be read.
    """
    return kept(run, "overview", RunOverview, _look)


def _look(run: Run) -> RunOverview:
    rows = RunRows.read(run)
    summary = summarise(run, rows)
    declared: Objective | None = None
    try:
        found = declared_objective(run)
        declared = found.objective if found is not None else None
    except AuditError:
        # The summary says so.
        pass
    steps = rows.step[~rows.greedy]
    return RunOverview(
        summary=summary,
        inferred=infer(rows, declared),
        reward=_means(rows, rows.numpy("reward")),
        length=_means(rows, rows.length),
        first_step=int(steps.min()) if len(steps) else None,
        last_step=int(steps.max()) if len(steps) else None,
    )


def _means(rows: RunRows, values: np.ndarray) -> list[float]:
    """Mean of a per-response quantity, shape (R,), in each bin of steps."""
    use = first_pass(rows) & np.isfinite(values)
    bins = step_bins(np.where(use, rows.step.astype(float), np.nan), POINTS)
    total = np.bincount(bins.code[use], weights=values[use], minlength=len(bins.spans))
    count = np.bincount(bins.code[use], minlength=len(bins.spans))
    return np.asarray(total / count).tolist() if len(bins.spans) else []
