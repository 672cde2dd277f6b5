"""Opening a foreign log as a run: detected, imported into the cache, opened from there."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import msgspec
from filelock import FileLock

from audit.errors import BadLog, UnknownName
from audit.importers.interface import Detection, Importer, Options, Source, Unit
from audit.importers.scalars.table import Told, write_scalars
from audit.importers.store import Report, bring_up_to_date, waiting_bytes
from audit.logs.cache_place import cache_place, claim, user_place
from audit.logs.catalogue import open_native
from audit.logs.manifest import Manifest
from audit.logs.run import Run
from audit.schema import TOKEN_LISTS

GENERIC = "generic"
LEAST = 0.3
"""Confidence below which a path is no foreign log; heuristic."""
AT_ONCE = 256 * 2**20
"""Bytes that are imported while a directory of runs is listed; a larger log is imported when it is opened."""


def detect(path: Path, importers: tuple[Importer, ...]) -> tuple[Importer, Detection] | None:
    """Return the importer that is surest of a path, or None where none takes it for its own."""
    found = [(importer, seen) for importer in importers if (seen := importer.detect(path)) is not None]
    best = max(found, key=lambda each: each[1].confidence, default=None)
    return best if best is not None and best[1].confidence >= LEAST else None


def named(name: str, importers: tuple[Importer, ...]) -> Importer:
    """Return the importer of a format.

    Raises
    ------
    UnknownName
        There is no such format.
    """
    by_name = {importer.name: importer for importer in importers}
    if name not in by_name:
        raise UnknownName.of("format", name, by_name)
    return by_name[name]


def choose(
    path: Path, importers: tuple[Importer, ...], said: str | None = None, columns: Collection[str] = ()
) -> tuple[Importer, Detection] | None:
    """Return the importer of the format that somebody said, else the surest; None where none is.

    Where somebody said what columns are called, generic is taken, also for files that it would not take by
    itself.

    Raises
    ------
    UnknownName
        There is no such format.
    BadLog
        The path is no log of the format that was said, or that format names its own columns.
    """
    if said is None:
        found = detect(path, importers)
        if not columns or (found is not None and found[0].takes.issuperset(columns)):
            return found
    importer = named(said or GENERIC, importers)
    seen = importer.detect(path)
    if seen is None and said is None:
        return None
    if seen is None:
        other = detect(path, importers)
        looks = f"; it looks like {other[0].name}: {other[1].reason}" if other else ""
        msg = f"{path}: is no {said} log ({importer.title}){looks}."
        raise BadLog(msg)
    if not importer.takes.issuperset(columns):
        named_here = ", ".join(sorted(set(columns) - importer.takes))
        msg = f"a {said} log names its own columns: leave {named_here} out, or say format {GENERIC}."
        raise BadLog(msg)
    return importer, seen


class Watcher(msgspec.Struct):
    """Told how an import goes on."""

    begin: Callable[[int], None]
    """The bytes that are to be read, before the first is."""
    advance: Callable[[Unit, int], None]
    """A unit, and the bytes of it that were read since the last call."""


WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
"""Who is told of imports that opening a log sets off."""


def open_foreign(
    path: Path, importer: Importer, options: Options | None = None, *, listing: bool = False
) -> Run:
    """Import a log into the cache, as far as it is not there yet, and open it.

    Parameters
    ----------
    listing : bool
        Refuse to begin what would take long.

    Raises
    ------
    BadLog
        No row can be read, or the log is large, not imported yet, and this is a listing.
    """
    source = Source(path, options or Options(), importer.manifest(path))
    place = _place(source, importer)
    if listing and (size := waiting_bytes(importer, source, place)) > AT_ONCE:
        msg = (
            f"{path}: {size / 2**20:,.0f} MiB of a {importer.name} log are not imported yet; open it once "
            f"(rlaudit summary {path})."
        )
        raise BadLog(msg)
    watcher = WATCHER.get()
    begin, advance = (watcher.begin, watcher.advance) if watcher is not None else (None, None)
    with _alone(place):
        report = bring_up_to_date(importer, source, place, begin, advance)
        told = write_scalars(importer, path, place)
    return opened(place, source, importer, report, told)


def opened(place: Path, source: Source, importer: Importer, report: Report, told: Told | None = None) -> Run:
    """Return the imported run, with what became of the records of its log."""
    run = open_native(place)
    lost = [f"{importer.name} logs hold {importer.cannot}"] if importer.cannot else []
    # In a run.json notes are for people; without one they say what was not read beside the log.
    if source.manifest.notes and not source.manifest.declared:
        lost.insert(0, source.manifest.notes)
    return replace(
        run,
        path=source.path,
        home=place,
        run_id=source.manifest.run_id,
        manifest=with_options(source.manifest, source.options),
        format=importer.name,
        log_files=report.files,
        rejected=report.rejected(),
        notes=(*report.notes(), *lost, *(told.notes if told else ())),
        skipped=(*run.skipped, *report.skipped(source.path)),
    )


def with_options(manifest: Manifest, options: Options) -> Manifest:
    """Return a manifest with what somebody said of the log, where it does not say that itself."""
    tokens = not manifest.declared and not options.columns.keys().isdisjoint(("length", *TOKEN_LISTS))
    if tokens and manifest.length_unit == "characters":
        manifest = msgspec.structs.replace(manifest, length_unit="tokens")
    if options.group_size is None or manifest.group_size is not None:
        return manifest
    return msgspec.structs.replace(manifest, group_size=options.group_size)


def _place(source: Source, importer: Importer) -> Path:
    key = blake2b(msgspec.json.encode(source.options) + importer.name.encode(), digest_size=6).hexdigest()
    if cache_place(source.path) is None:
        return Path(_scratch()) / blake2b(f"{source.path}|{key}".encode(), digest_size=12).hexdigest()
    # In the user's cache even where the log could be written to: an import is as large as its log.
    home = user_place(source.path)
    claim(home, source.path)
    return home / f"import-{key}"


@lru_cache(maxsize=1)
def _scratch() -> str:
    """Folder of this process, for RLAUDIT_CACHE=off."""
    folder = tempfile.mkdtemp(prefix="rlaudit-import-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _alone(place: Path) -> FileLock:
    place.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(place.with_name(f".{place.name}.lock"))
