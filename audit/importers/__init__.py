"""Foreign logs as runs: one file per format; ``open_run`` and ``find_runs`` know them all.

Adding a format: one file with an :class:`~audit.importers.interface.Importer`, its test, and a line in
:mod:`audit.importers.registry`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.errors import AuditError, MissingColumn
from audit.logs import find_runs, open_run
from audit.logs.catalogue import EXPLAINERS, FOREIGN_OPENERS, RENAMERS
from audit.logs.files import ROLLOUTS
from audit.logs.run import Run

if TYPE_CHECKING:
    from audit.importers.registry import IMPORTERS

__all__ = ["IMPORTERS", "find_runs", "open_run"]


def __getattr__(name: str) -> Any:
    # A run in the schema needs none of them, and they take a tenth of a second to import.
    if name != "IMPORTERS":
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from audit.importers.registry import IMPORTERS

    return IMPORTERS


def _open(path: Path, listing: bool) -> Run | None:
    from audit.importers.opening import choose, open_foreign
    from audit.importers.registry import IMPORTERS
    from audit.importers.said import mapping_of

    mapping = mapping_of(path, IMPORTERS)
    found = choose(path, IMPORTERS, mapping.format, mapping.columns)
    return None if found is None else open_foreign(path, found[0], mapping.options(), listing=listing)


def _is_renamed(path: Path) -> bool:
    from audit.importers.mapping import mapping_file

    if mapping_file(path) is None or (path / ROLLOUTS).is_dir():
        return False
    from audit.importers.registry import IMPORTERS
    from audit.importers.said import mapping_of

    return bool(mapping_of(path, IMPORTERS).columns)


def _explain(path: Path, error: AuditError | None, listing: bool) -> MissingColumn | None:
    from audit.importers.generic.unmapped import explain_unmapped

    return explain_unmapped(path, error, listing)


FOREIGN_OPENERS[:] = [_open]
RENAMERS[:] = [_is_renamed]
EXPLAINERS[:] = [_explain]
