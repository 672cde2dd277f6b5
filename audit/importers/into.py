"""A foreign log → a run directory of the rollout schema that somebody named: ``rlaudit import``."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock

from audit.errors import AuditError, BadLog
from audit.importers.interface import Importer, Options, Source
from audit.importers.opening import WATCHER, with_options
from audit.importers.scalars.table import write_scalars
from audit.importers.store import bring_up_to_date
from audit.logs.catalogue import open_native
from audit.logs.manifest import FILE_NAME, manifest_to_dict, write_manifest
from audit.logs.places import is_remote
from audit.schema import TIERS


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import made: the contract of ``rlaudit import --json``; ``read = rows + rejected``."""

    source: str
    format: str
    dest: str
    read: int
    """Records that the log holds: lines, or entries of lines that hold several."""
    rows: int
    rejected: dict[str, int]
    """Reason → records that are no row."""
    groups: int | None
    """None where not every row has a group."""
    group_size: int | None
    """Most frequent number of rows of a group."""
    steps: int
    tier: int
    tier_name: str
    scalars: int
    """Numbers that the trainer logged, written to ``metrics/``."""
    notes: list[str]
    skipped: dict[str, str]
    """Files that were left out → reason."""
    cannot: str
    """What logs of this format do not hold."""
    schema: str = "rlaudit.import.v1"


def import_into(path: Path, dest: Path, importer: Importer, options: Options) -> Imported:
    """Import a log into ``dest`` as a run; what is there of an earlier, killed import is gone on with.

    Raises
    ------
    BadLog
        No row can be read, or ``dest`` holds something else, is on other storage, or lies in the log.
    """
    _check_places(path, dest)
    source = Source(path, options, importer.manifest(path))
    dest.mkdir(parents=True, exist_ok=True)
    watcher = WATCHER.get()
    begin, advance = (watcher.begin, watcher.advance) if watcher is not None else (None, None)
    lock = dest / ".import.lock"
    try:
        with FileLock(lock):
            report = bring_up_to_date(importer, source, dest, begin, advance)
            told = write_scalars(importer, path, dest)
            notes = [*report.notes(), *told.notes, *_keep_manifest(dest, source, options)]
    finally:
        lock.unlink(missing_ok=True)
    run = open_native(dest)
    held = run.responses(["step", "group_id"])
    groups, size = _groups(held["group_id"])
    return Imported(
        source=str(path),
        format=importer.name,
        dest=str(dest),
        read=report.read,
        rows=report.rows,
        rejected=report.rejected(),
        groups=groups,
        group_size=size,
        steps=pc.count_distinct(held["step"]).as_py(),
        tier=run.tier,
        tier_name=next((tier.name for tier in TIERS if tier.tier == run.tier), "no rewards and groups"),
        scalars=told.count,
        notes=notes,
        skipped={str(file.path): file.reason for file in report.skipped(path)},
        cannot=importer.cannot,
    )


def _check_places(path: Path, dest: Path) -> None:
    """Refuse a destination that would change the log, or be taken for a part of it."""
    if is_remote(dest):
        msg = f"{dest}: an import is written to this machine; name a directory of it."
        raise BadLog(msg)
    if dest.exists() and not dest.is_dir():
        msg = f"{dest}: is not a directory."
        raise BadLog(msg)
    if is_remote(path):
        return
    log, made = path.resolve(), dest.resolve()
    if made == log or (path.is_dir() and made.is_relative_to(log)) or log.is_relative_to(made):
        msg = f"{dest}: lies in the log, or holds it; logs are never changed. Name another directory."
        raise BadLog(msg)


def _keep_manifest(dest: Path, source: Source, options: Options) -> list[str]:
    """Write run.json where there is none; one that somebody changed stays, and is said."""
    manifest = with_options(source.manifest, options)
    content = json.loads(json.dumps(manifest_to_dict(manifest), default=str))
    file = dest / FILE_NAME
    try:
        write_manifest(dest, content)
    except AuditError:
        if not file.exists():
            raise
        return [f"{FILE_NAME} was there already and differs from what the log says: it was kept"]
    return [] if manifest.declared or not manifest.notes else [manifest.notes]


def _groups(ids: pa.ChunkedArray) -> tuple[int | None, int | None]:
    """Number of groups, and their most frequent size; None where a row has none."""
    if ids.null_count or not len(ids):
        return None, None
    sizes = pc.value_counts(ids).field("counts")
    return len(sizes), int(pc.mode(sizes, n=1)[0]["mode"].as_py())
