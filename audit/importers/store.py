"""Imported logs, kept as runs of the rollout schema: unit by unit, so that only what is new is read again."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from audit.errors import BadLog
from audit.importers.convert import Made, convert
from audit.importers.interface import Importer, Source, Unit
from audit.logs.cache_place import subject
from audit.logs.files import ROLLOUTS, SkippedFile, numeric_order, state_of, sync

VERSION = 1
"""Raised when importers read the same log otherwise: what was imported before is imported again."""
REPORT = "import.json"
LUMP = 4 * 2**20
"""Bytes between two words on progress."""

Print = tuple[str, int, int]


class Entry(msgspec.Struct, frozen=True):
    """One imported unit."""

    prints: tuple[Print, ...]
    """(path, size, mtime_ns) of its files when it was read."""
    file: str
    """Parquet file under rollouts/; empty where nothing could be read."""
    made: Made
    failed: str = ""
    """Why the unit could not be read."""


class Report(msgspec.Struct, frozen=True):
    """What was imported, from where, and what became of every record (``import.json``)."""

    source: str
    format: str
    options: dict[str, Any]
    units: dict[str, Entry] = {}
    known: str = ""
    """Digest of what was known of the run: rewards and groups are read by its config."""
    version: int = VERSION
    schema: str = "rlaudit.import.v1"

    @property
    def rows(self) -> int:
        """Rows of all units."""
        return sum(entry.made.rows for entry in self.units.values())

    @property
    def read(self) -> int:
        """Records of all units."""
        return sum(entry.made.read for entry in self.units.values())

    @property
    def files(self) -> int:
        """Files that were read."""
        return sum(len(e.prints) - len(e.made.skipped) for e in self.units.values() if not e.failed)

    def rejected(self) -> dict[str, int]:
        """Reason → records of all units."""
        total: dict[str, int] = {}
        for entry in self.units.values():
            for reason, count in entry.made.rejected.items():
                total[reason] = total.get(reason, 0) + count
        return total

    def notes(self) -> list[str]:
        """What was assumed, each once, with the number of units where it is not said of all."""
        said: dict[str, int] = {}
        shares: dict[str, tuple[int, int]] = {}
        for entry in self.units.values():
            for note in entry.made.notes:
                said[note] = said.get(note, 0) + 1
            for text, (part, whole) in entry.made.shares.items():
                before = shares.get(text, (0, 0))
                shares[text] = (before[0] + part, before[1] + whole)
        told = [f"{part:,} of {whole:,} {text}" for text, (part, whole) in shares.items()]
        return told + [
            note if count == len(self.units) else f"{note} ({count} of {len(self.units)} files)"
            for note, count in said.items()
        ]

    def skipped(self, root: Path) -> list[SkippedFile]:
        """Units and files that could not be read."""
        failed = [(root / name, entry.failed) for name, entry in self.units.items() if entry.failed]
        files = [(Path(f), why) for entry in self.units.values() for f, why in entry.made.skipped.items()]
        return [SkippedFile(path, why) for path, why in (*failed, *files)]


def read_report(place: Path) -> Report | None:
    """Return the report of an import; None where there is none of this version."""
    try:
        report = msgspec.json.decode((place / REPORT).read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError):
        return None
    return report if report.version == VERSION else None


def bring_up_to_date(
    importer: Importer,
    source: Source,
    place: Path,
    begin: Callable[[int], None] | None = None,
    advance: Callable[[Unit, int], None] | None = None,
) -> Report:
    """Import into ``place`` every unit that is new or was changed; the others stay as they are.

    Killed at any moment, the next call goes on with the first unit that was not finished.

    Parameters
    ----------
    begin : callable, optional
        Told the bytes of the units that are to be read, before the first is.
    advance : callable, optional
        Told a unit and the bytes of it that were read since the last call; all of them when it is done.

    Raises
    ------
    BadLog
        The place holds something else, or no unit can be read.
    """
    before = _previous(importer, source, place)
    units = list(importer.units(source.path))
    kept, todo = _plan(units, before, place)
    if todo:
        # Before the first file, so that an import that is killed knows its own place.
        place.mkdir(parents=True, exist_ok=True)
        _save(place, _report(importer, source, _in_order(kept, units)))
    (place / ROLLOUTS).mkdir(parents=True, exist_ok=True)
    if begin is not None:
        begin(sum(size for _, prints in todo for _, size, _ in prints))
    for unit, prints in todo:
        with _Ticks(unit, prints, advance) as ticks:
            kept[unit.name] = _import(importer, unit, source, place / ROLLOUTS, ticks)
            _save(place, _report(importer, source, _in_order(kept, units)))
    report = _report(importer, source, _in_order(kept, units))
    if todo or before.keys() != kept.keys():
        _save(place, report)
        _drop_others(place, report)
    if not report.rows:
        raise BadLog(_nothing(importer, source, report))
    return report


class _Ticks:
    """Adds up what is read of a unit, so that its bytes are told in lumps and once."""

    def __init__(
        self, unit: Unit, prints: tuple[Print, ...], advance: Callable[[Unit, int], None] | None
    ) -> None:
        self.prints = prints
        self._unit, self._advance = unit, advance
        self._left = sum(size for _, size, _ in prints)
        self._held = 0.0

    def add(self, size: float) -> None:
        self._held += size
        if self._held >= LUMP:
            self._tell(int(self._held))
            self._held = 0.0

    def _tell(self, size: int) -> None:
        # Lines of a compressed file are longer than what was read of it.
        size = min(size, self._left)
        self._left -= size
        if self._advance is not None:
            self._advance(self._unit, size)

    def __enter__(self) -> _Ticks:
        return self

    def __exit__(self, *_: object) -> None:
        self._tell(self._left)


def waiting_bytes(importer: Importer, source: Source, place: Path) -> int:
    """Bytes of the units that :func:`bring_up_to_date` would read."""
    try:
        before = _previous(importer, source, place)
    except BadLog:
        before = {}
    _, todo = _plan(list(importer.units(source.path)), before, place)
    return sum(size for _, prints in todo for _, size, _ in prints)


def _plan(
    units: Sequence[Unit], before: dict[str, Entry], place: Path
) -> tuple[dict[str, Entry], list[tuple[Unit, tuple[Print, ...]]]]:
    """Units that are imported as they are now, and those to read."""
    kept: dict[str, Entry] = {}
    todo = []
    for unit in units:
        prints = prints_of(unit)
        old = before.get(unit.name)
        there = old is not None and (old.failed or (place / ROLLOUTS / old.file).is_file())
        if old is not None and there and old.prints == prints:
            kept[unit.name] = old
        else:
            todo.append((unit, prints))
    return kept, todo


def prints_of(unit: Unit) -> tuple[Print, ...]:
    """(path, size, mtime_ns) of the files of a unit; a file that is gone counts as empty."""
    found = []
    for file in unit.files:
        try:
            size, version = state_of(file)
        except OSError:
            size, version = 0, 0
        found.append((str(file), size, version))
    return tuple(found)


def _report(importer: Importer, source: Source, units: dict[str, Entry]) -> Report:
    known = blake2b(msgspec.json.encode(source.manifest), digest_size=8).hexdigest()
    options = msgspec.to_builtins(source.options)
    return Report(subject(source.path), importer.name, options, units, known)


def _previous(importer: Importer, source: Source, place: Path) -> dict[str, Entry]:
    report = read_report(place)
    if report is None:
        others = place.is_dir() and any(not each.name.startswith(".import.") for each in place.iterdir())
        if others and not (place / REPORT).exists():
            msg = f"{place}: is not empty and holds no import; name another directory."
            raise BadLog(msg)
        return {}
    if report.source != subject(source.path) or report.format != importer.name:
        msg = f"{place}: holds the import of {report.source} as {report.format}; name another directory."
        raise BadLog(msg)
    now = _report(importer, source, {})
    return report.units if (report.options, report.known) == (now.options, now.known) else {}


def _import(importer: Importer, unit: Unit, source: Source, folder: Path, ticks: _Ticks) -> Entry:
    name = f"{_stem(unit.name)}.parquet"
    try:
        made = convert(importer, unit, source, folder / name, ticks.add)
    except (OSError, EOFError, zlib.error, pa.ArrowException, UnicodeDecodeError, BadLog) as error:
        # Damage shows in whatever reads the file: gzip, Parquet, or the text that Parquet holds.
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        why = why.splitlines()[0] if why else type(error).__name__
        # A reason may quote what is not UTF-8, which no report can hold.
        why = why.encode("utf-8", "backslashreplace").decode()
        return Entry(ticks.prints, "", Made(0, 0, {}, [], True), why)
    return Entry(ticks.prints, name, made)


def _stem(name: str) -> str:
    """A file name for a unit that sorts as the unit does, and that no other unit has."""
    plain = "".join(c if c.isalnum() or c in "-._" else "-" for c in name).strip("-._")[:80]
    return f"{plain or 'unit'}-{blake2b(name.encode('utf-8', 'surrogateescape'), digest_size=4).hexdigest()}"


def _in_order(kept: dict[str, Entry], units: Sequence[Unit]) -> dict[str, Entry]:
    return {unit.name: kept[unit.name] for unit in units if unit.name in kept}


def _save(place: Path, report: Report) -> None:
    temporary = place / f".{REPORT}.tmp"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    sync(temporary)
    temporary.replace(place / REPORT)


def _drop_others(place: Path, report: Report) -> None:
    """Remove what units that are gone, or were imported otherwise, have left."""
    named = {entry.file for entry in report.units.values()}
    for file in (place / ROLLOUTS).iterdir():
        if file.name not in named:
            shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()


def _nothing(importer: Importer, source: Source, report: Report) -> str:
    listed = [f"{reason} ({count})" for reason, count in report.rejected().items()]
    listed += [f"{name}: {entry.failed}" for name, entry in report.units.items() if entry.failed]
    why = f" ({'; '.join(listed[:3])})" if listed else ""
    return f"{source.path}: no row of this {importer.name} log can be read{why}."


def in_numeric_order(files: Sequence[Path]) -> list[Path]:
    """Sort so that ``2.jsonl`` comes before ``10.jsonl``."""
    return sorted(files, key=lambda file: numeric_order(file.as_posix()))
