"""Foreign logs as runs: one file per format; ``open_run`` and ``find_runs`` know them all.

Adding a format: one file with an :class:`~audit.importers.interface.Importer`, its test, and a line in
:mod:`audit.importers.registry`.
"""

from __future__ import annotations

from pathlib import Path

from audit.importers.opening import detect, open_foreign
from audit.importers.registry import IMPORTERS
from audit.logs import find_runs, open_run
from audit.logs.catalogue import FOREIGN_OPENERS
from audit.logs.run import Run

__all__ = ["IMPORTERS", "find_runs", "open_run"]


def _open(path: Path, listing: bool) -> Run | None:
    found = detect(path, IMPORTERS)
    return None if found is None else open_foreign(path, found[0], listing=listing)


FOREIGN_OPENERS[:] = [_open]
