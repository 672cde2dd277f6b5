"""Scalars of a foreign log as the long table ``metrics/`` of its import."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from audit.importers.interface import Importer
from audit.importers.scalars import near
from audit.logs.files import state_of
from audit.recorders.metrics import SCHEMA

FOLDER, KEPT = "metrics", "scalars.json"


class Told(msgspec.Struct, frozen=True):
    """What was read of which files near the log."""

    count: int
    notes: tuple[str, ...] = ()
    prints: tuple[tuple[str, int, int], ...] = ()
    """(path, size, mtime_ns); none where the format's own importer found them."""


def write_scalars(importer: Importer, path: Path, place: Path) -> Told:
    """Write what the trainer logged as scalars to ``metrics/``, or nothing where it logged none.

    Files that were read before and have not changed are not read again.
    """
    rows = list(importer.scalars(path))
    found = None if rows else near(path)
    prints = tuple((str(file), *state_of(file)) for file in found.files) if found else ()
    if prints and (kept := _kept(place)) is not None and kept.prints == prints:
        return kept
    notes: list[str] = []
    if found is not None:
        rows = list(found.read(notes))
    told = Told(len(rows), tuple(notes), prints)
    folder = place / FOLDER
    if rows:
        folder.mkdir(parents=True, exist_ok=True)
        steps, names, values = zip(*rows, strict=True)
        made = {
            "step": pa.array(steps, pa.int64()),
            "update": pa.array(steps, pa.int64()),
            "micro_batch": pa.nulls(len(rows), pa.int32()),
            "name": pa.array(names, pa.string()),
            "value": pa.array(values, pa.float64()),
        }
        temporary = folder / ".part-00000.tmp"
        pq.write_table(pa.table(made, schema=SCHEMA), temporary, compression="zstd")
        temporary.replace(folder / "part-00000.parquet")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    if prints:
        (place / KEPT).write_bytes(msgspec.json.encode(told))
    return told


def _kept(place: Path) -> Told | None:
    try:
        return msgspec.json.decode((place / KEPT).read_bytes(), type=Told)
    except (OSError, msgspec.MsgspecError):
        return None
