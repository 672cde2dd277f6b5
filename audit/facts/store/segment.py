"""A segment: one Parquet file with some facts of many source files, and which those are in its metadata.

The bytes depend on the sources, the columns and the facts alone, and the name on the sources and columns: no
time, no machine, no history.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from audit.facts.columns import FACTS_VERSION
from audit.facts.store.fingerprint import Source
from audit.logs.files import sync
from audit.schema import VERSION

SUFFIX = ".facts"
"""Not ``.parquet``: whoever globs a run for Parquet files must not meet facts."""
TEMPORARY = ".tmp"
_KEY = b"rlaudit.facts"

MOST_ROWS = 32_768
"""Rows of a segment, unless a single file has more: bounds the memory of writing and ordering segments."""
ROWS_AT_ONCE = 8_192
"""Rows of a row group of a segment: bounds the memory of encoding it."""


class Header(msgspec.Struct, frozen=True):
    """What a segment says of itself."""

    facts: int
    """Version of the meaning of facts."""
    schema: str
    """Version of the rollout schema."""
    columns: tuple[str, ...]
    sources: tuple[Source, ...]
    """In row order."""

    @property
    def rows(self) -> int:
        """Rows of all sources."""
        return sum(source.rows for source in self.sources)


class Damaged(Exception):
    """A segment whose rows cannot be read; never leaves this package."""

    def __init__(self, holding: Holding) -> None:
        super().__init__(str(holding))
        self.holding = holding


@dataclass(frozen=True, eq=False)
class Holding:
    """Facts of some sources, in a file or in memory."""

    header: Header
    path: Path | None = None
    table: pa.Table | None = None
    """The facts; None where they are to be read from ``path``."""
    size: int = 0
    """Bytes of the file."""
    mtime_ns: int = 0
    metadata: Any = None
    """The file's :class:`pyarrow.parquet.FileMetaData`, so that it is not read twice."""

    @cached_property
    def starts(self) -> dict[Source, int]:
        """First row of each source."""
        starts, row = {}, 0
        for source in self.header.sources:
            starts[source] = row
            row += source.rows
        return starts

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of the facts."""
        return frozenset(self.header.columns)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return these columns, rows in the order of the sources.

        Raises
        ------
        Damaged
            The file cannot be read, or its pages do not have the checksums that they were written with.
        """
        if self.table is not None:
            return self.table.select(columns)
        try:
            file = pq.ParquetFile(self.path, metadata=self.metadata, page_checksum_verification=True)
            # A name with dots selects every column that starts like it, so that some may be too many.
            wanted = None if self.columns.issubset(columns) else list(columns)
            with file as parquet:
                table = parquet.read(columns=wanted).select(columns)
        except (pa.ArrowException, OSError, KeyError, ValueError):
            raise Damaged(self) from None
        if table.num_rows != self.header.rows:
            raise Damaged(self)
        return table


def header_of(columns: Iterable[str], sources: Iterable[Source]) -> Header:
    """Return the header of a segment of this version; columns are sorted."""
    return Header(FACTS_VERSION, VERSION, tuple(sorted(columns)), tuple(sources))


def name_of(header: Header) -> str:
    """Return the file name of a segment: a hash of what it holds."""
    return blake2b(msgspec.json.encode(header), digest_size=16).hexdigest() + SUFFIX


def open_segment(path: Path) -> Holding | None:
    """Return a segment, of whatever version; None where it is damaged or foreign."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            # Opening a pipe would wait for its writer.
            return None
        metadata = pq.read_metadata(path)
        header = msgspec.json.decode((metadata.metadata or {})[_KEY], type=Header)
        rows, columns = metadata.num_rows, metadata.schema.names
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None
    if rows != header.rows or tuple(columns) != header.columns or len(set(columns)) < len(columns):
        return None
    return Holding(header, path, size=found.st_size, mtime_ns=found.st_mtime_ns, metadata=metadata)


def is_of_this_version(header: Header) -> bool:
    """Tell whether the facts mean what this version of the program says."""
    return (header.facts, header.schema) == (FACTS_VERSION, VERSION)


def write_segment(folder: Path, header: Header, table: pa.Table) -> Holding:
    """Write a segment, whole or not at all, and return it with its rows in memory.

    Raises
    ------
    OSError
        The disk is full, or the folder cannot be written to.
    """
    table = table.select(header.columns).combine_chunks()
    path = folder / name_of(header)
    temporary = folder / f"{path.name}.{os.getpid()}{TEMPORARY}"
    try:
        # Facts are floats that hardly repeat: bytes of equal place side by side, and no dictionary. Of the
        # codecs LZ4 is read fastest, at 15 % more bytes than zstd.
        with pq.ParquetWriter(
            temporary,
            table.schema.remove_metadata(),
            compression="lz4",
            use_dictionary=False,
            column_encoding=dict.fromkeys(header.columns, "BYTE_STREAM_SPLIT"),
            write_statistics=False,
            write_page_checksum=True,
            store_schema=False,
        ) as writer:
            writer.write_table(table, row_group_size=ROWS_AT_ONCE)
            writer.add_key_value_metadata({_KEY: msgspec.json.encode(header)})
        sync(temporary)
        temporary.replace(path)
        sync(folder)
        found = path.stat()
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return Holding(header, path, table, found.st_size, found.st_mtime_ns)
