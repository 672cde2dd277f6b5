"""The runs under one directory, as plain values that a page can show and a cache can key on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from audit.errors import AuditError
from audit.importers import find_runs
from audit.logs import Run
from audit.logs.files import Identity
from audit.logs.manifest import FILE_NAME
from audit.logs.places import is_remote, to_place

Fingerprint = str
"""Digest of (name, size, mtime_ns) of every file of a run: equal as long as nothing was written."""


class Listed(NamedTuple):
    """One run under the directory: what its cache entry is keyed on, or why it cannot be read."""

    name: str
    """Its path below the directory; the only way in which a page refers to a run."""
    run_id: str
    framework: str = ""
    fingerprint: Fingerprint = ""
    error: str = ""
    size: int = 0
    """Bytes of its files."""
    written: float | None = None
    """When the youngest of them was written, in seconds since 1970; None for a place without such times."""

    @property
    def shown(self) -> str:
        """Its path below the directory, and its run_id where the last folder is not called so."""
        if self.name == ".":
            return self.run_id
        return self.name if self.run_id == self.name.rpartition("/")[2] else f"{self.name} ({self.run_id})"


def directory(arguments: Sequence[str]) -> Path | None:
    """Return the directory given as ``-- --logs DIR``; it is chosen at the start and never in the page."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--logs", type=to_place)
    given: Path | None = parser.parse_known_args(arguments)[0].logs
    return given


def runs_under(root: Path) -> list[Listed]:
    """List the runs; one that a link leads to outside of the directory is listed, and refused.

    Raises
    ------
    AuditError
        The directory cannot be read.
    """
    return list(below(root).listed)


class Below(NamedTuple):
    """What one look at a directory found."""

    listed: tuple[Listed, ...]
    runs: dict[tuple[str, Fingerprint], Run]
    """Those that can be opened, by name and version."""


def below(root: Path) -> Below:
    """Look at the directory once, for the list and for the runs themselves.

    Raises
    ------
    AuditError
        The directory cannot be read.
    """
    found = find_runs(root)
    listed = tuple(_listed(each.path, root, each.run_id, each.run, each.error) for each in found)
    runs = {
        (line.name, line.fingerprint): each.run
        for line, each in zip(listed, found, strict=True)
        if each.run is not None and not line.error
    }
    return Below(listed, runs)


def open_listed(root: Path, name: str) -> Run:
    """Open a run by its name in the list; no other name opens anything.

    Raises
    ------
    AuditError
        No such run under the directory, or it cannot be read.
    """
    for entry in find_runs(root):
        if _name(entry.path, root) == name:
            if entry.run is not None and is_inside(entry.path, root):
                return entry.run
            raise entry.error or AuditError(_OUTSIDE)
    msg = f"no run {name!r} in this directory."
    raise AuditError(msg)


_OUTSIDE = "a link leads out of the directory."


def is_inside(path: Path, root: Path) -> bool:
    """Tell whether a path, links resolved, lies below the directory."""
    return path.resolve().is_relative_to(root.resolve())


def _listed(path: Path, root: Path, run_id: str, run: Run | None, error: AuditError | None) -> Listed:
    name = _name(path, root)
    if not is_inside(path, root):
        return Listed(name, run_id, error=_OUTSIDE)
    if run is None:
        return Listed(name, run_id, error=str(error))
    made_by = run.manifest.framework
    framework = f"{made_by.name} {made_by.version or ''}".rstrip() if made_by else ""
    files = [*_manifest(run.path), *(file.identity for file in run.files)]
    return Listed(
        name,
        run_id,
        framework,
        fingerprint=blake2b(repr(files).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        size=sum(size for _, size, _ in files),
        written=None if is_remote(run.place) else max((at for _, _, at in files), default=0) / 1e9 or None,
    )


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _manifest(path: Path) -> list[Identity]:
    try:
        held = (path / FILE_NAME).stat()
    except OSError:
        return []
    return [(FILE_NAME, held.st_size, held.st_mtime_ns)]
