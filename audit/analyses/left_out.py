"""Files of a run that were not read, as notes beside a result."""

from __future__ import annotations

from audit.logs.run import Run


def files_left_out(run: Run) -> list[str]:
    """Return one sentence per file that looks like part of the run and was not read: its name, and why."""
    return [f"{skip.path.name} was left out: {skip.reason}" for skip in run.skipped]
