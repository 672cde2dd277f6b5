"""What lies in the caches, what of it is out of date, and getting rid of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from audit.errors import BadLog
from audit.facts.store.bound import cache_limit, enforce_limit, folder_size, user_places
from audit.facts.store.fingerprint import Source, is_current
from audit.facts.store.lock import exclusive
from audit.facts.store.segment import Holding
from audit.facts.store.shelf import FOLDER, find, tidy
from audit.logs.cache_place import NAME, is_address, owner_of, subject, user_cache


class PlaceReport(msgspec.Struct, frozen=True):
    """The stored facts of one log."""

    log: str | None
    """Path or address of the log; None where the folder does not say."""
    folder: str
    segments: int
    files: int
    """Source files whose facts are there."""
    facts: int
    """Distinct facts."""
    bytes: int
    """Of everything in the folder."""
    stale_bytes: int
    """Of facts of files that changed or are gone, of earlier versions, damaged or unfinished (an estimate
    where a segment is stale in part)."""


class CacheReport(msgspec.Struct, frozen=True):
    """The contract of ``rlaudit cache --json``."""

    user_cache: str
    limit: int
    """Bytes that the user's cache may hold."""
    logs: list[PlaceReport]
    segments: int
    bytes: int
    stale_bytes: int
    freed: int = 0
    """Bytes that this call removed."""
    schema: str = "rlaudit.cache.v1"


def survey(path: str | Path | None) -> CacheReport:
    """List the caches of a run, of the runs below a directory, or (None) the user's whole cache.

    Raises
    ------
    BadLog
        Nothing is at ``path``, and nothing is kept for it.
    """
    return _report(list(_places(path)))


def prune(path: str | Path | None, say: Callable[[str], None]) -> CacheReport:
    """Remove what is out of date, and what the user's cache holds beyond its limit.

    Raises
    ------
    BadLog
        Nothing is at ``path``, and nothing is kept for it.
    OSError
        The facts that are still good cannot be written again.
    """
    places = list(_places(path))
    before = _size(places)
    for place in places:
        log = owner_of(place)
        if log is None or not (is_address(log) or os.path.exists(log)):
            shutil.rmtree(place, ignore_errors=True)
            continue
        with exclusive(place, partial(say, f"waiting for another process at work on {log!r}")) as why_not:
            if why_not:
                say(f"{str(place)!r} is left as it is: {why_not}.")
            else:
                tidy(place / FOLDER, _is_alive(log), fully=True)
    left = [place for place in places if place.exists()]
    if left and left[-1].name != NAME:
        enforce_limit(left[-1])
    return _after(places, before)


def clear(path: str | Path | None, say: Callable[[str], None]) -> CacheReport:
    """Remove everything that is kept for these logs.

    Raises
    ------
    BadLog
        Nothing is at ``path``, and nothing is kept for it.
    """
    places = list(_places(path))
    before = _size(places)
    for place in places:
        said = f"waiting for another process at work in {str(place)!r}"
        with exclusive(place, partial(say, said)):
            shutil.rmtree(place, ignore_errors=True)
    return _after(places, before)


def _after(places: list[Path], before: int) -> CacheReport:
    left = [place for place in places if place.exists()]
    return msgspec.structs.replace(_report(left), freed=before - _size(left))


def _size(places: list[Path]) -> int:
    return sum(map(folder_size, places))


def _places(path: str | Path | None) -> Iterator[Path]:
    """Folders that keep something of the log or logs at ``path``: beside them, and in the user's cache."""
    if path is None:
        yield from user_places()
        return
    here = not is_address(path)
    count = 0
    for place in _beside(Path(path)) if here else ():
        count += 1
        yield place
    named = subject(path)
    for place in user_places():
        log = owner_of(place)
        if log is not None and (log == named or log.startswith(named.rstrip("/") + "/")):
            count += 1
            yield place
    if here and not count and not os.path.exists(path):
        msg = f"{path}: no such file or directory."
        raise BadLog(msg)


def _beside(path: Path) -> Iterator[Path]:
    for folder, below, _ in os.walk(path):
        place = Path(folder) / NAME
        if NAME in below and not place.is_symlink():
            yield place
        below[:] = sorted(name for name in below if not name.startswith((".", "_")))


def _report(places: list[Path]) -> CacheReport:
    logs = [_place_report(place) for place in places]
    return CacheReport(
        user_cache=str(user_cache()),
        limit=cache_limit(),
        logs=logs,
        segments=sum(one.segments for one in logs),
        bytes=sum(one.bytes for one in logs),
        stale_bytes=sum(one.stale_bytes for one in logs),
    )


def _place_report(place: Path) -> PlaceReport:
    found = find(place / FOLDER)
    log, size = owner_of(place), folder_size(place)
    gone = log is None or not (is_address(log) or os.path.exists(log))
    alive = _is_alive(log or "")
    sources = {source for segment in found.segments for source in segment.header.sources}
    dead = {source for source in sources if not alive(source)}
    stale = sum(map(_file_size, (*found.unusable, *found.unfinished)))
    stale += sum(_stale_bytes(segment, dead) for segment in found.segments)
    return PlaceReport(
        log=log,
        folder=str(place),
        segments=len(found.segments),
        files=len(sources),
        facts=len({name for segment in found.segments for name in segment.header.columns}),
        bytes=size,
        stale_bytes=size if gone else stale,
    )


def _is_alive(log: str) -> Callable[[Source], bool]:
    return lambda source: is_address(log) or is_current(source, Path(log))


def _stale_bytes(segment: Holding, dead: set[Source]) -> int:
    rows = sum(source.rows for source in segment.header.sources if source in dead)
    if not rows and not dead.issuperset(segment.header.sources):
        return 0
    return (
        segment.size
        if dead.issuperset(segment.header.sources)
        else segment.size * rows // segment.header.rows
    )


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
