"""Lines of JSON as trainers write them: streamed, counted, and no line read wrongly.

A file may be compressed (``.gz``), start with a byte-order mark, hold bare ``NaN``, lone surrogates or blank
lines, and end in the middle of a line that is still being written.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from audit.importers.interface import Book

CUT = "last line is cut (still being written?)"
NOT_JSON = "line is not JSON"
NOT_OBJECT = "line is not a JSON object"
TOO_DEEP = "a value is nested too deeply"
NOT_UTF8 = "line is not UTF-8"
LONGEST = 2**30
"""Bytes of one line; a longer one is no record but a file without line ends."""

DEEPEST = 100
"""Levels of a record."""

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")

_decode = msgspec.json.Decoder().decode


def is_jsonl(path: Path) -> bool:
    """Tell by its name whether a file holds lines of JSON."""
    return path.name.lower().endswith(SUFFIXES)


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of lines, compressed or not."""
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def records(path: Path, book: Book) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file line by line; what is none is rejected with its reason.

    Raises
    ------
    OSError, EOFError, zlib.error
        The file cannot be read.
    """
    for line, ended in _lines(path):
        book.saw(len(line))
        record = record_of(line)
        if isinstance(record, dict):
            yield record
        else:
            book.reject(CUT if record == NOT_JSON and not ended else str(record))


def record_of(line: bytes) -> dict[str, Any] | str:
    """Return the object that a line holds, or the reason why it holds none."""
    try:
        found = _decode(line)
    except (msgspec.MsgspecError, RecursionError):
        # Strict JSON refuses bare NaN and lone surrogates, which trainers write; Python's reader takes both.
        try:
            found = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError:
            return NOT_UTF8
        except (ValueError, RecursionError):
            return NOT_JSON
    # Whatever is done with a record walks down its levels; no trainer's has so many.
    if line.count(b"[") + line.count(b"{") > DEEPEST and too_deep(found):
        return TOO_DEEP
    return found if isinstance(found, dict) else NOT_OBJECT


def too_deep(value: Any) -> bool:
    """Tell whether a value has more levels than :data:`DEEPEST`."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def first_record(path: Path) -> dict[str, Any] | None:
    """Return the first object of a file, or None: what detection looks at."""
    try:
        # Looked at before it is opened: opening a pipe would wait for its writer.
        if not path.is_file():
            return None
        for line, _ in _lines(path):
            found = record_of(line)
            return found if isinstance(found, dict) else None
    except (OSError, EOFError, ValueError, zlib.error):
        pass
    return None


def first_with(path: Path, fits: Callable[[dict[str, Any]], bool]) -> bool:
    """Tell whether the first object of a file exists and fits."""
    record = first_record(path)
    return record is not None and fits(record)


def _lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield lines that are not blank, and whether each was ended."""
    with open_lines(path) as file:
        first = True
        while line := file.readline(LONGEST):
            if first:
                line, first = line.removeprefix(b"\xef\xbb\xbf"), False
            bare = line.strip()
            if bare:
                yield bare, line.endswith(b"\n")
