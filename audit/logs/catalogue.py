"""Finding runs under a directory, and opening one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow as pa

from audit.counted import plural
from audit.errors import AuditError, BadLog, MissingColumn
from audit.logs.files import (
    ROLLOUTS,
    Identity,
    RunFile,
    check_file,
    list_files,
    numeric_order,
    why_not_parquet,
)
from audit.logs.footers import Footer, FooterIndex
from audit.logs.manifest import FILE_NAME, Manifest, read_manifest
from audit.logs.parquet_part import ParquetPart
from audit.logs.places import answer, is_directory, is_remote, name_of, readable, real_path, to_place
from audit.logs.run import Run, require_columns
from audit.logs.walk import SkippedFile, is_parquet_name, walk_folders

_REQUESTS = 16
"""Footers that are asked of object storage at the same time."""

FOREIGN_OPENERS: list[Callable[[Path, bool], Run | None]] = []
"""Tried in turn on a path that is no native log; importers append to it.

An opener returns None unless this very path (not something below it) is a log of its format. Its second
argument says that a directory of runs is being listed, where none may take long.
"""

RENAMERS: list[Callable[[Path], bool]] = []
"""Tell whether somebody said what the columns of a path are called; importers append to it.

Such a log goes to the foreign openers even where its own names are those of the schema.
"""
EXPLAINERS: list[Callable[[Path, AuditError | None, bool], MissingColumn | None]] = []
"""Asked in turn of a path that is no log; importers append to it.

An explainer is told what opening the path as a log of the rollout schema gave, and whether runs are being
listed, where it says nothing of files that are no rollouts. It returns the error to show, or None.
"""


class RunEntry(msgspec.Struct, frozen=True):
    """One run that was found: opened, or with the error that opening it gave."""

    path: Path
    run_id: str
    run: Run | None = None
    error: AuditError | None = None


def open_run(path: str | Path) -> Run:
    """Open one run: a run directory, a single Parquet file, or a foreign log.

    Parameters
    ----------
    path : str or Path
        A directory with run.json or Parquet files below it, or one ``.parquet`` file; on this machine, or in
        object storage (:func:`audit.logs.places.to_place`).

    Raises
    ------
    BadLog
        Nothing readable is there, a column has an impossible type, or the directory holds several runs.
    MissingColumn
        A required column is in none of the files.
    BadManifest
        The run.json is not valid.
    """
    path = to_place(path)
    with readable(path):
        if not answer(path, path.exists):
            msg = f"{path}: no such file{', directory or bucket' if is_remote(path) else ' or directory'}."
            raise BadLog(msg)
        if any(is_renamed(path) for is_renamed in RENAMERS):
            run = _open_foreign(path, listing=False)
            if run is not None:
                return run
        try:
            return open_native(path)
        except AuditError as error:
            run = _open_foreign(path, listing=False)
            if run is None:
                raise _several(path) or _explained(path, error) or error from None
            return run


def find_runs(root: str | Path) -> list[RunEntry]:
    """List the runs under ``root``, in numeric-aware order of their paths.

    A run is a directory with a run.json or with ``rollouts/*.parquet``, a foreign log, or a directory whose
    own Parquet files are rollouts; nothing inside a run is a run of its own. Only footers are read. A run
    that cannot be opened is listed with its error, and so is a folder whose files look like rollouts and lack
    columns.

    Raises
    ------
    BadLog
        ``root`` is not a directory.
    """
    root = to_place(root)
    entries = []
    with readable(root):
        if not is_directory(root):
            msg = f"{root}: not a directory."
            raise BadLog(msg)
        for folder, subfolders in _folders(root):
            entry = _entry(folder)
            if entry is not None:
                entries.append(entry)
                # A table that lies above runs, and may be of them, hides none.
                if not isinstance(entry.error, MissingColumn) or is_run_directory(folder):
                    subfolders.clear()
    return sorted(entries, key=lambda entry: numeric_order(entry.path.as_posix()))


def is_run_directory(folder: Path) -> bool:
    """Tell whether the directory has a run.json, or Parquet files under ``rollouts/``."""
    if (folder / FILE_NAME).is_file():
        return True
    return any(is_parquet_name(name) for _, _, names in walk_folders(folder / ROLLOUTS) for name in names)


def _entry(folder: Path) -> RunEntry | None:
    try:
        with readable(folder):
            if is_run_directory(folder):
                run: Run | None = open_run(folder)
            else:
                run = _open_foreign(folder, listing=True) or _open_loose(folder)
    except AuditError as error:
        return RunEntry(folder, name_of(folder), error=error)
    except OSError as error:
        # Removed meanwhile, or not ours to read: the other runs are listed all the same.
        return RunEntry(folder, name_of(folder), error=BadLog(f"{folder}: {error.strerror or error}."))
    return None if run is None else RunEntry(folder, run.run_id, run=run)


def _open_loose(folder: Path) -> Run | None:
    """Open a folder whose own Parquet files are rollouts; files of something else are nothing to report."""
    error = None
    if any(is_parquet_name(entry.name) for entry in folder.iterdir()):
        try:
            return open_native(folder)
        except AuditError as found:
            error = found
    told = _explained(folder, error, listing=True)
    if told is not None:
        raise told
    return None


def _explained(path: Path, error: AuditError | None, *, listing: bool = False) -> MissingColumn | None:
    return next((told for each in EXPLAINERS if (told := each(path, error, listing)) is not None), None)


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Walk down from ``root``; a consumer that clears the second item keeps the walk from going deeper."""
    visited: set[str] = set()
    for folder, subfolders, _ in walk_folders(root, followlinks=True):
        real = real_path(folder)
        if real in visited:
            subfolders.clear()
            continue
        visited.add(real)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith((".", "_")))
        yield folder, subfolders


def _open_foreign(path: Path, *, listing: bool) -> Run | None:
    return next((run for opener in FOREIGN_OPENERS if (run := opener(path, listing)) is not None), None)


def _several(path: Path) -> BadLog | None:
    """The error of a folder that is no log and holds some; None where it holds none."""
    if not is_directory(path) or is_run_directory(path):
        return None
    within = [entry for entry in find_runs(path) if entry.path != path]
    opened = [entry.path.relative_to(path).as_posix() for entry in within if entry.run is not None]
    if opened:
        return _not_one(path, opened)
    if not within:
        return None
    return BadLog(f"{path}: holds {plural(len(within), 'run')}, none of which can be read. {within[0].error}")


def _not_one(path: Path, nested: list[str]) -> BadLog:
    listed = ", ".join(nested[:5]) + (", …" if len(nested) > 5 else "")
    many = f"{len(nested)} runs, not one" if len(nested) > 1 else "one run below it"
    return BadLog(f"{path}: holds {many}: {listed}. Name {'one of them' if len(nested) > 1 else 'it'}.")


def open_native(path: Path) -> Run:
    """Open a run of the rollout schema; see :func:`open_run`."""
    if not path.is_dir():
        checked = check_file(path, path.name)
        if isinstance(checked, SkippedFile):
            msg = f"{path}: not a readable Parquet file: {checked.reason}."
            raise BadLog(msg)
        return _open_files(path, _manifest_of_file(path), [checked], [])
    if not is_run_directory(path):
        nested = [
            folder.relative_to(path).as_posix() for folder, _ in _folders(path) if is_run_directory(folder)
        ]
        if nested:
            raise _not_one(path, nested)
    manifest, index = read_manifest(path), FooterIndex(path)
    files, skipped = list_files(path, index.known)
    return _open_files(path, manifest, files, skipped, index)


def _open_files(
    path: Path,
    manifest: Manifest,
    files: list[RunFile],
    skipped: list[SkippedFile],
    index: FooterIndex | None = None,
) -> Run:
    parts: list[ParquetPart] = []
    strays: list[ParquetPart] = []
    footers: list[tuple[RunFile, Footer]] = []
    skipped = list(skipped)
    for part in _read_footers(files, {} if index is None else index.known):
        if isinstance(part, SkippedFile):
            skipped.append(part)
        else:
            footers.append((part.file, part.footer))
            (strays if part.types.keys().isdisjoint(("step", "reward")) else parts).append(part)
    if index is not None:
        index.save(footers)
    if not parts and not strays:
        counts = Counter(file.reason.split(":")[0] for file in skipped)
        why = ", ".join(f"{plural(count, 'file')}: {reason}" for reason, count in counts.items())
        cut = counts["being written"] > 0
        hint = " A file without its end is still being written, or was cut: copy it again." if cut else ""
        raise BadLog(
            f"{path}: no readable Parquet file{f' (skipped: {why}).' if why else ' below it.'}{hint}"
        )
    require_columns(parts or strays, str(path))
    skipped += [SkippedFile(part.file.path, "not rollouts: has neither step nor reward") for part in strays]
    return Run(
        path=path,
        run_id=manifest.run_id,
        manifest=manifest,
        parts=tuple(parts),
        files=tuple(part.file for part in parts),
        skipped=tuple(skipped),
        footers=index,
    )


def _read_footers(
    files: list[RunFile], known: Mapping[Identity, Footer]
) -> Iterable[ParquetPart | SkippedFile]:
    def read(file: RunFile) -> ParquetPart | SkippedFile:
        return _read_footer(file, known.get(file.identity))

    if files and is_remote(files[0].path):
        # Each footer is a request whose answer takes its time, however small it is.
        with ThreadPoolExecutor(_REQUESTS) as pool:
            return list(pool.map(read, files))
    return map(read, files)


def _read_footer(file: RunFile, known: Footer | None) -> ParquetPart | SkippedFile:
    try:
        return ParquetPart(file, known)
    except AuditError:
        raise
    except (pa.ArrowException, OSError) as error:
        with readable(file.path):
            reason = why_not_parquet(file) if is_remote(file.path) else ""
        if not reason:
            reason = "damaged footer" if file.unchanged() else "being written"
            reason = f"{reason}: {str(error).splitlines()[0]}"
        return SkippedFile(file.path, reason)


def _manifest_of_file(path: Path) -> Manifest:
    """Read the manifest of the run that a single file lies in, if it lies in one."""
    folders = [path.parent, *(folder.parent for folder in path.parents if folder.name == ROLLOUTS)]
    found = next((folder for folder in folders if (folder / FILE_NAME).is_file()), path.parent)
    return read_manifest(found, run_id=path.stem)
