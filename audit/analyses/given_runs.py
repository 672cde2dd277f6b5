"""The runs that a person names: one by one, or a directory of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from audit.errors import AuditError, BadLog
from audit.importers import find_runs, open_run
from audit.logs import Run
from audit.logs.broken import BrokenRun
from audit.logs.places import is_directory, real_path


def given_runs(paths: Sequence[Path]) -> tuple[list[Run], list[BrokenRun]]:
    """Open every run that is named; a directory that is no run stands for all runs below it.

    Returns
    -------
    runs : list of Run
        Each once, in the order given. Of exactly two paths to runs both are kept, be they the same.
    left_out : list of BrokenRun
        Runs below a directory that cannot be read, and runs that were given more than once.

    Raises
    ------
    AuditError
        A path is no run and holds none, or fewer than two runs are left.
    """
    opened: list[Run] = []
    left_out: list[BrokenRun] = []
    expanded = False
    for path in paths:
        try:
            opened.append(open_run(path))
        except AuditError as error:
            below, broken = _below(path)
            if not below:
                raise error from None
            expanded = True
            opened += below
            left_out += broken
    if len(paths) == 2 and not expanded:
        return opened, []
    runs: list[Run] = []
    seen: set[str] = set()
    for run in opened:
        place = real_path(run.path)
        if place in seen:
            left_out.append(BrokenRun(str(run.path), "was given more than once; it is compared once."))
        else:
            seen.add(place)
            runs.append(run)
    if len(runs) < 2:
        again = f" ({left_out[0].path}: {left_out[0].error})" if left_out else ""
        msg = (
            f"explain compares two runs or more, and {runs[0].path} is the only one given{again}. "
            "Name another run, or a directory that holds several."
        )
        raise BadLog(msg)
    return runs, left_out


def _below(path: Path) -> tuple[list[Run], list[BrokenRun]]:
    if not is_directory(path):
        return [], []
    runs: list[Run] = []
    broken: list[BrokenRun] = []
    for entry in find_runs(path):
        if entry.run is not None:
            runs.append(entry.run)
        else:
            broken.append(BrokenRun(str(entry.path), str(entry.error)))
    return runs, broken
