"""Trackio: an SQLite file a project (table ``metrics``), or its export as Parquet.

Read in trackio 0.43, trackio/sqlite_storage.py: columns ``run_name``, ``step``, ``timestamp``, and
``metrics`` as JSON; ``export_to_parquet`` writes ``{project}.parquet`` with a column per metric.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from audit.errors import BadLog
from audit.importers.interface import Scalar
from audit.importers.logged import logged

_OWN = frozenset({"id", "run_id", "run_name", "timestamp", "step", "log_id", "space_id"})
_MAGIC = b"SQLite format 3\0"


def find(folder: Path) -> list[Path]:
    """Return the newest project file of a folder, or of ``trackio/`` in it."""
    for place in (folder, folder / "trackio"):
        if not place.is_dir():
            continue
        found = [f for f in place.glob("*.db") if f.is_file() and _has_metrics(f)]
        found = found or [f for f in place.glob("*.parquet") if f.is_file() and _is_export(f)]
        if found:
            return sorted(found, key=lambda file: file.stat().st_mtime_ns)[-1:]
    return []


def read(files: list[Path], notes: list[str]) -> Iterator[Scalar]:
    """Yield what the newest run of the project holds.

    Raises
    ------
    BadLog
        The file is damaged.
    """
    file = files[0]
    try:
        rows = _table(file) if file.suffix == ".db" else pq.read_table(file).to_pylist()
    except (sqlite3.Error, pa.ArrowException) as error:
        raise BadLog(f"{file}: {error}.") from None
    names = list(dict.fromkeys(row["run_name"] for row in sorted(rows, key=lambda r: str(r["timestamp"]))))
    if len(names) > 1:
        notes.append(f"{file.name} holds {len(names)} runs: the newest, {names[-1]}, was taken")
    for row in rows:
        if row["run_name"] == names[-1]:
            yield from logged(row["step"], row, skip=_OWN)


def _table(file: Path) -> list[dict[str, Any]]:
    with closing(_open(file)) as base:
        asked = "SELECT run_name, step, timestamp, metrics FROM metrics ORDER BY rowid"
        return [
            {**_object(metrics), "run_name": name, "step": step, "timestamp": time}
            for name, step, time, metrics in base.execute(asked)
        ]


def _open(file: Path) -> sqlite3.Connection:
    # Immutable: without it SQLite would write its own files beside a log.
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro&immutable=1", uri=True)


def _object(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _has_metrics(file: Path) -> bool:
    with file.open("rb") as stream:
        if stream.read(16) != _MAGIC:
            return False
    try:
        with closing(_open(file)) as base:
            base.execute("SELECT run_name, step, timestamp, metrics FROM metrics LIMIT 1")
    except sqlite3.Error:
        return False
    return True


def _is_export(file: Path) -> bool:
    try:
        names = set(pq.read_schema(file).names)
    except (pa.ArrowException, OSError):
        return False
    return {"run_name", "timestamp", "step"} <= names
