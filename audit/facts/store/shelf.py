"""The segments of one run: found, added to, and put in order.

In order means: files with the same columns stand together, by name, in segments of bounded length. That
depends on what is known of which file alone, so that every way to the same facts ends with the same bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.facts.columns import FACTS_VERSION
from audit.facts.store.fingerprint import Source
from audit.facts.store.plan import carry_out, make_plan
from audit.facts.store.segment import (
    MOST_ROWS,
    SUFFIX,
    TEMPORARY,
    Damaged,
    Header,
    Holding,
    header_of,
    is_of_this_version,
    name_of,
    open_segment,
    write_segment,
)
from audit.logs.files import numeric_order

FOLDER = "facts"
_MANY = 8
"""Segments out of order that a reader still opens quickly."""
_LITTLE = 2 * 2**20
"""Bytes that are put in order at once, since it takes no time."""


@dataclass(frozen=True)
class Found:
    """What lies in the folder."""

    segments: tuple[Holding, ...]
    """Of this version, largest first."""
    unusable: tuple[Path, ...]
    """Damaged, foreign, or of an earlier version."""
    newer: tuple[Path, ...]
    """Of a later version of the program, which may still want them."""
    unfinished: tuple[Path, ...]
    """Left by a writer that was killed; or being written, where the lock is not held."""


def find(folder: Path, known: Iterable[Holding] = ()) -> Found:
    """List the segments in a folder; what is not one is left out, never raised.

    Parameters
    ----------
    known : iterable of Holding
        Segments that were opened before: they are opened again only if their file changed.
    """
    opened = {segment.path: segment for segment in known}
    paths = sorted(_paths(folder))
    found = _sort_out(paths, opened)
    for _ in range(5):
        if all(path.exists() for path in paths if path.suffix == SUFFIX):
            break
        # Somebody put segments in order while this read them; the new ones are there by now.
        paths = sorted(_paths(folder))
        found = _sort_out(paths, opened)
    return found


def _paths(folder: Path) -> list[Path]:
    # A log from somebody else may hold a link: what lies behind it is not this program's to remove.
    if folder.is_symlink():
        return []
    try:
        return [path for path in folder.iterdir() if path.suffix in {SUFFIX, TEMPORARY}]
    except OSError:
        return []


def _sort_out(paths: Iterable[Path], opened: Mapping[Path | None, Holding]) -> Found:
    segments, unusable, newer, unfinished = [], [], [], []
    for path in paths:
        if path.suffix == TEMPORARY:
            unfinished.append(path)
            continue
        segment = opened.get(path)
        if segment is None or _state(path) != (segment.size, segment.mtime_ns):
            segment = open_segment(path)
        if segment is None:
            unusable.append(path)
        elif is_of_this_version(segment.header):
            segments.append(segment)
        elif segment.header.facts > FACTS_VERSION:
            newer.append(path)
        else:
            unusable.append(path)
    segments.sort(key=lambda segment: (-segment.size, str(segment.path)))
    return Found(tuple(segments), tuple(unusable), tuple(newer), tuple(unfinished))


def tidy(
    folder: Path, is_alive: Callable[[Source], bool], *, fully: bool, known: Iterable[Holding] = ()
) -> None:
    """Put the segments in order and remove what no reader can use. Only for the holder of the lock.

    Parameters
    ----------
    is_alive : callable
        Tells whether a source is still a file of the run in this version.
    fully : bool
        Also where many bytes have to be written again for it.
    known : iterable of Holding
        See :func:`find`.

    Raises
    ------
    OSError
        The disk is full, or the folder cannot be written to. Everything that was there is still there.
    """
    found = find(folder, known)
    remove((*found.unusable, *found.unfinished))
    segments = list(found.segments)
    while fully or len(segments) > _MANY or sum(one.size for one in segments) < _LITTLE:
        wanted = _in_order(segments, is_alive)
        kept = {name_of(header) for header in wanted}
        loose = [one for one in segments if one.path is not None and one.path.name not in kept]
        try:
            _write_missing(folder, wanted, segments)
        except Damaged as damaged:
            segments = [segment for segment in segments if segment is not damaged.holding]
            remove([damaged.holding.path])
            continue
        remove(one.path for one in loose)
        return
    # What is wholly out of date costs nothing to remove.
    remove(one.path for one in segments if not any(map(is_alive, one.header.sources)))


def is_out_of_order(found: Found, is_alive: Callable[[Source], bool]) -> bool:
    """Tell whether :func:`tidy` would change anything."""
    wanted = {name_of(header) for header in _in_order(found.segments, is_alive)}
    there = {segment.path.name for segment in found.segments if segment.path is not None}
    return bool(found.unusable or found.unfinished or wanted != there)


def _write_missing(folder: Path, wanted: Sequence[Header], segments: Sequence[Holding]) -> None:
    there = {segment.path.name for segment in segments if segment.path is not None}
    for header in wanted:
        if name_of(header) not in there:
            write_segment(folder, header, carry_out(make_plan(header.sources, header.columns, segments)))


def _in_order(segments: Sequence[Holding], is_alive: Callable[[Source], bool]) -> list[Header]:
    """Return the segments that should be there: by columns, then by name of the file."""
    known: dict[Source, frozenset[str]] = {}
    for segment in segments:
        for source in segment.header.sources:
            known[source] = known.get(source, frozenset()) | segment.columns
    groups: dict[frozenset[str], list[Source]] = {}
    for source, columns in known.items():
        if is_alive(source):
            groups.setdefault(columns, []).append(source)
    headers = []
    for columns, sources in groups.items():
        sources.sort(key=lambda source: (numeric_order(source.name), source))
        headers += [header_of(columns, run) for run in _bounded(sources)]
    return headers


def _bounded(sources: Sequence[Source]) -> list[list[Source]]:
    runs: list[list[Source]] = []
    rows = MOST_ROWS
    for source in sources:
        if not runs or rows + source.rows > MOST_ROWS:
            runs.append([])
            rows = 0
        runs[-1].append(source)
        rows += source.rows
    return runs


def remove(paths: Iterable[Path | None]) -> None:
    """Remove files; one that cannot be removed stays."""
    for path in paths:
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (-1, -1)
    return found.st_size, found.st_mtime_ns
