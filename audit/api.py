"""The analyses as functions of runs: what ``import audit`` offers. A run is a Run, or a path to one."""

from __future__ import annotations

from pathlib import Path

from audit.analyses import check as _check
from audit.analyses import explain as _explain
from audit.analyses import length as _length
from audit.analyses.directory import DirectorySummary, summarise_path
from audit.analyses.summary import Summary, summarise
from audit.facts.chosen import chosen_objective
from audit.facts.declared import read_objective
from audit.facts.rows import RunRows
from audit.facts.weigh import Written, write_weights
from audit.importers import open_run
from audit.logs import Run
from audit.logs.places import to_place
from audit.objectives.objective import Objective

RunLike = Run | str | Path
ObjectiveLike = Objective | str | None


def explain(a: RunLike, b: RunLike) -> _explain.Explanation:
    """Explain why two runs disagree: declared, inferred, objective effect, data effect, verdict."""
    return _explain.explain(_opened(a), _opened(b))


def summary(run: RunLike) -> Summary | DirectorySummary:
    """Summarise a run, or every run under a directory."""
    return summarise(run) if isinstance(run, Run) else summarise_path(to_place(run))


def check(run: RunLike) -> _check.Check:
    """Check whether a log is valid, and whether the run did what it declares."""
    return _check.check(_opened(run))


def length_bias(run: RunLike, objective: ObjectiveLike = None) -> _length.LengthBias:
    """Measure length bias under the run's own objective, or under another one."""
    rows = RunRows.read(_opened(run))
    chosen, notes = chosen_objective(rows, _read(objective))
    return _length.length_bias(rows, chosen, notes)


def weights(run: RunLike, out: str | Path, objective: ObjectiveLike = None) -> Written:
    """Write the effective weight of every token to a Parquet file; returns what it holds."""
    rows = RunRows.read(_opened(run))
    chosen, _ = chosen_objective(rows, _read(objective))
    return write_weights(rows, chosen, Path(out))


def _opened(run: RunLike) -> Run:
    return run if isinstance(run, Run) else open_run(run)


def _read(objective: ObjectiveLike) -> Objective | None:
    return read_objective(objective) if isinstance(objective, str) else objective
