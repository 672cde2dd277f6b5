"""Where results may be written: never into a log."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from audit.errors import AuditError
from audit.logs.catalogue import is_run_directory
from audit.logs.places import is_remote

_FOREIGN = ("completions_*.parquet", "completions/completions_*.parquet")


def _foreign(folder: Path) -> bool:
    """Whether a folder holds a log of a trainer, by the names of its files."""
    return any(next(folder.glob(pattern), None) is not None for pattern in _FOREIGN)


def check_output(out: Path, endings: tuple[str, ...], inputs: Iterable[Path] = ()) -> None:
    """Refuse a place where a result cannot or must not be written, before any work is done.

    Parameters
    ----------
    endings : tuple of str
        What the name may end in, as ``(".html", ".md")``.
    inputs : iterable of Path
        Files that were read: neither they nor what lies beside them is touched.

    Raises
    ------
    AuditError
        A directory, a missing directory, another ending, a device or pipe, a place inside a run, or one in
        object storage.
    """
    # A Path has made one slash of two.
    if is_remote(out) or (out.parts and out.parts[0].endswith(":") and not os.path.lexists(out.parts[0])):
        msg = f"{out}: results are written to this machine only; name a local file."
        raise AuditError(msg)
    if out.is_dir():
        msg = f"{out}: is a directory."
        raise AuditError(msg)
    if out.suffix.lower() not in endings:
        msg = f"{out}: the name must end in {' or '.join(endings)}."
        raise AuditError(msg)
    if not out.parent.is_dir():
        missing = "is not a directory" if out.parent.exists() else "no such directory"
        msg = f"{out.parent}: {missing}."
        raise AuditError(msg)
    if out.exists() and not stat.S_ISREG(out.stat().st_mode):
        msg = f"{out}: is not a regular file."
        raise AuditError(msg)
    place = out.resolve()
    folders = {path.resolve().parent for path in inputs if not is_remote(path)}
    inside = next((folder for folder in place.parents if is_run_directory(folder) or _foreign(folder)), None)
    if inside is None and place.parent in folders:
        inside = place.parent
    if inside is not None:
        msg = f"{out}: lies inside the log {inside}, and logs are never changed; write somewhere else."
        raise AuditError(msg)
