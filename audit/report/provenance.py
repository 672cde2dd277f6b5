"""Where numbers come from: the files of a run by size, time and hash, and the versions that read them."""

from __future__ import annotations

import datetime
import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from audit.errors import AuditError
from audit.logs import Run
from audit.logs.files import state_of
from audit.logs.places import is_remote
from audit.schema import VERSION

_PACKAGES = ("rlaudit", "torch", "duckdb", "polars", "pyarrow", "numpy", "scipy")


class FileMark(msgspec.Struct, frozen=True, kw_only=True):
    """One file, so that another person can tell whether theirs is the same."""

    path: str
    """Below the run's own path."""
    size: int
    """Bytes."""
    mtime: str
    """When it was last written, ISO 8601, UTC; empty for object storage."""
    sha256: str | None
    """None where the content was not read."""


class RunMark(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was looked at."""

    run: str
    path: str
    format: str
    responses: int
    tier: int
    files: list[FileMark]
    left_out: list[str]
    """Files that were not read, with the reason."""


def mark_run(run: Run, *, hashed: bool = True) -> RunMark:
    """Return a run with every file that its rows come from.

    Raises
    ------
    AuditError
        A file changed while it was read.
    """
    files = [_mark(file.path, file.name, file.size, file.mtime_ns, hashed) for file in run.files]
    manifest = run.place / "run.json"
    if not is_remote(run.place) and (manifest.is_file() or (run.manifest.declared and run.place.is_dir())):
        size, mtime_ns = state_of(manifest)
        files.insert(0, _mark(manifest, "run.json", size, mtime_ns, hashed))
    return RunMark(
        run=run.run_id,
        path=str(run.path),
        format=run.format,
        responses=run.num_rows,
        tier=run.tier,
        files=files,
        left_out=[f"{skipped.path}: {skipped.reason}" for skipped in run.skipped],
    )


def _mark(path: Path, name: str, size: int, mtime_ns: int, hashed: bool) -> FileMark:
    remote = is_remote(path)
    digest = None
    if hashed and not remote:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if state_of(path) != (size, mtime_ns):
            msg = f"{path}: changed while it was read; run the report again."
            raise AuditError(msg)
    written = "" if remote else datetime.datetime.fromtimestamp(mtime_ns / 1e9, datetime.UTC).isoformat()
    return FileMark(path=name, size=size, mtime=written, sha256=digest)


def versions() -> dict[str, str]:
    """Return the versions of what computed the numbers, and of the schema."""
    found = {"python": platform.python_version(), "schema": VERSION}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
