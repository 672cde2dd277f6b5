"""Foreign logs as runs: one file per format; ``open_run`` and ``find_runs`` know them all.

Adding a format: one file with an opener (path → Run, or None where the path is not of its format), its test,
and a line in :data:`OPENERS`.
"""

from __future__ import annotations

from audit.importers import trl
from audit.logs import find_runs, open_run
from audit.logs.catalogue import FOREIGN_OPENERS

__all__ = ["OPENERS", "find_runs", "open_run"]

OPENERS = {"trl": trl.open_completions}
FOREIGN_OPENERS[:] = OPENERS.values()
