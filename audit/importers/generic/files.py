"""Files of records: lines of JSON, one JSON array, CSV and TSV, Parquet. Streamed; no type is guessed."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from audit.errors import BadLog
from audit.importers.generic.arrays import array_records
from audit.importers.generic.columns import plan_of
from audit.importers.interface import Book
from audit.importers.jsonl import NOT_UTF8, is_jsonl, records
from audit.logs.parquet_part import open_parquet

KINDS = (".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv")
UNEVEN = "row has more or fewer cells than the header"
LONG_CELL = "row cannot be parsed (a quote that is not closed?)"
LONGEST_CELL = 2**26
_TEXTS = {"prompt", "response"}
_ROWS = 256
"""Rows of a Parquet file that are held as Python values."""


def kind_of(path: Path) -> str | None:
    """Return how a file is read, by its name: one of :data:`KINDS`; None where it is no file of records."""
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    found = next((kind for kind in KINDS if plain.endswith(kind)), None)
    return None if found == ".parquet" and plain != name else found


def records_of(path: Path, book: Book) -> Iterator[dict[str, Any]]:
    """Yield the records of a file; what is none is rejected with its reason.

    Raises
    ------
    BadLog
        The file is not what its name says.
    OSError, EOFError, zlib.error
        It cannot be read.
    """
    kind = kind_of(path)
    if is_jsonl(path):
        return records(path, book)
    if kind == ".parquet":
        return _parquet(path, book)
    if kind in {".csv", ".tsv"}:
        return _cells(path, book, "\t" if kind == ".tsv" else ",")
    return _array(path, book)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def _array(path: Path, book: Book) -> Iterator[dict[str, Any]]:
    with _opened(path) as file:
        yield from array_records(file, book)


def _cells(path: Path, book: Book, delimiter: str) -> Iterator[dict[str, Any]]:
    """Rows of CSV, every cell as text: ids keep their digits, and a column of integers may end in text."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    with _opened(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(_counted(text, book), delimiter=delimiter)
        header = next(reader, None)
        if header is None:
            return
        # An empty cell is nothing, but for text, of which nothing may be left.
        texts = {name for name in header if _TEXTS.issuperset(plan_of([name], {}).sources) and name}
        while True:
            try:
                cells = next(reader, None)
            except csv.Error:
                book.reject(LONG_CELL)
                continue
            if cells is None:
                return
            if not cells:
                continue
            if len(cells) != len(header):
                book.reject(UNEVEN)
            elif any(not c.isascii() and _escaped(c) for c in cells):
                book.reject(NOT_UTF8)
            else:
                yield {n: c if c or n in texts else None for n, c in zip(header, cells, strict=True)}


def _counted(lines: Iterator[str] | io.TextIOWrapper, book: Book) -> Iterator[str]:
    for line in lines:
        book.saw(len(line))
        yield line


def _escaped(cell: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in cell)


def _parquet(path: Path, book: Book) -> Iterator[dict[str, Any]]:
    try:
        with open_parquet(path) as parquet:
            names = parquet.schema_arrow.names
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                msg = f"has the column {twice!r} twice."
                raise BadLog(msg)
            size = path.stat().st_size
            rows = max(parquet.metadata.num_rows, 1)
            for batch in parquet.iter_batches(batch_size=_ROWS, use_threads=False):
                book.saw(size * batch.num_rows // rows)
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise BadLog(str(error).splitlines()[0]) from None
