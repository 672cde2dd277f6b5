"""The columns with one small value per response, kept in one file per run: a thousand files open as one.

As with the footers, an entry holds for a file of the same name, size and mtime_ns only, and nothing needs it.
Texts are not kept: they are large, and few questions need all of them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from audit.logs.batching import batch_schema
from audit.logs.cache_place import cache_place, claim
from audit.logs.files import Identity
from audit.logs.footers import FEWEST, YOUNG
from audit.logs.parquet_part import ParquetPart
from audit.logs.places import is_remote
from audit.schema import COLUMNS

NAME = "scalars.v1.arrow"
_LARGE = frozenset({"prompt", "response", "extra", "reward_components"})
KEPT: tuple[str, ...] = tuple(c.name for c in COLUMNS if not c.is_token_list and c.name not in _LARGE)
"""Columns that are kept, in canonical order."""

_SCHEMA = batch_schema(KEPT)
_FILES = b"rlaudit.files"
_UNBOUNDED = 2**62


def read_scalars(run: Path, parts: Sequence[ParquetPart], columns: Sequence[str]) -> pa.Table:
    """Return some of :data:`KEPT` for all rows of a run, reading only files that are new or have changed.

    Raises
    ------
    BadLog
        As :meth:`audit.logs.Run.batches`.
    """
    remote = is_remote(run)
    place = cache_place(str(run)) if len(parts) >= (1 if remote else FEWEST) else None
    if place is None:
        return _read(parts, columns)
    kept, ranges = _load(place / NAME)
    pieces: list[pa.Table] = []
    new = 0
    for part in parts:
        start, rows = ranges.get(part.file.identity, (0, -1))
        if rows == part.num_rows:
            if not remote:
                part.refuse_if_changed()
            pieces.append(kept.slice(start, rows))
        else:
            pieces.append(_read([part], KEPT))
            new += 1
    table = pa.concat_tables(pieces)
    if new:
        table = table.combine_chunks()
        oldest = time.time_ns() - int(YOUNG * 1e9)
        if remote or all(part.file.mtime_ns < oldest for part in parts):
            _save(place, run, table, [(part.file.identity, part.num_rows) for part in parts])
    return table.select(list(columns))


def _read(parts: Sequence[ParquetPart], columns: Sequence[str]) -> pa.Table:
    batches = (batch for part in parts for batch in part.batches(columns, max_tokens=_UNBOUNDED))
    return pa.Table.from_batches(batches, schema=batch_schema(columns))


def _load(file: Path) -> tuple[pa.Table, dict[Identity, tuple[int, int]]]:
    """What is kept, and where in it the rows of each file are: (first row, rows)."""
    ranges: dict[Identity, tuple[int, int]] = {}
    try:
        with pa.OSFile(str(file)) as source:
            table = pa.ipc.open_file(source).read_all()
        files = msgspec.msgpack.decode(
            (table.schema.metadata or {}).get(_FILES, b""), type=list[tuple[str, int, int, int]]
        )
    except (OSError, ValueError, pa.ArrowException):
        return _SCHEMA.empty_table(), {}
    start = 0
    for name, size, mtime_ns, rows in files:
        ranges[name, size, mtime_ns] = (start, rows)
        start += rows
    if start != table.num_rows or not table.schema.equals(_SCHEMA) or any(r < 0 for _, r in ranges.values()):
        return _SCHEMA.empty_table(), {}
    return table.replace_schema_metadata(None), ranges


def _save(place: Path, run: Path, table: pa.Table, files: Sequence[tuple[Identity, int]]) -> None:
    listed = msgspec.msgpack.encode([(*identity, rows) for identity, rows in files])
    temporary = place / f".{NAME}.{os.getpid()}-{id(table):x}.tmp"
    schema = _SCHEMA.with_metadata({_FILES: listed})
    try:
        claim(place, str(run))
        with (
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer,
        ):
            writer.write_table(table.replace_schema_metadata(schema.metadata))
        os.replace(temporary, place / NAME)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
