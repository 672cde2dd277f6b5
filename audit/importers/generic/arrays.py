"""A file that is one JSON value: an array of records read piece by piece, or an object that holds them.

Python's own reader takes bare NaN and lone surrogates, which streaming readers of strict JSON refuse.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from audit.errors import BadLog
from audit.importers.interface import Book
from audit.importers.jsonl import NOT_OBJECT, TOO_DEEP, too_deep

CUT = "array ends in the middle of a record (still being written?)"
BROKEN = "what follows in the array is not JSON"
PIECE = 2**20
LONGEST = 2**28
"""Characters of one record; and of a file that is no array."""
_SPACE = re.compile(r"[\s,]*")
_decoder = json.JSONDecoder()


def array_records(file: IO[bytes], book: Book) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that holds one JSON array, or one object with them.

    Raises
    ------
    BadLog
        It holds neither.
    """
    text = _Text(file, book)
    start = text.skip()
    if start == "[":
        text.take(1)
        yield from _each(text, book)
        return
    if start != "{":
        msg = f"is not JSON: it starts with {start!r}."
        raise BadLog(msg)
    try:
        whole = text.value()
    except _Broken:
        msg = "is one JSON value that is neither an array nor a whole object."
        raise BadLog(msg) from None
    for record in records_inside(whole):
        if isinstance(record, dict) and not too_deep(record):
            yield record
        else:
            book.reject(TOO_DEEP if isinstance(record, dict) else NOT_OBJECT)


def records_inside(whole: dict[str, Any]) -> list[Any]:
    """Return the records of an object: a table of W&B, the one list of objects, or the object itself."""
    columns, data = whole.get("columns"), whole.get("data")
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(r, list) for r in data):
        return [dict(zip(map(str, columns), row, strict=False)) for row in data]
    lists = [v for v in whole.values() if isinstance(v, list) and v and all(isinstance(r, dict) for r in v)]
    # The messages of a conversation are objects too.
    lists = [each for each in lists if not all("role" in record for record in each)]
    return lists[0] if len(lists) == 1 else [whole]


def _each(text: _Text, book: Book) -> Iterator[dict[str, Any]]:
    while (start := text.skip()) != "]":
        if not start:
            book.reject(CUT)
            return
        try:
            record = text.value()
        except _Broken as broken:
            book.reject(str(broken))
            return
        if not isinstance(record, dict):
            book.reject(NOT_OBJECT)
        elif too_deep(record):
            book.reject(TOO_DEEP)
        else:
            yield record


class _Broken(ValueError):
    """What stands here is no JSON value."""


class _Text:
    """The characters of a file that are not taken yet."""

    def __init__(self, file: IO[bytes], book: Book) -> None:
        self._file, self._book = file, book
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._held, self._at, self._ended = "", 0, False

    def skip(self) -> str:
        """Pass over white space and commas; return the character that follows, empty at the end."""
        while True:
            found = _SPACE.match(self._held, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._held) or not self._more():
                return self._held[self._at : self._at + 1]

    def take(self, count: int) -> None:
        self._at += count

    def value(self) -> Any:
        """Read one value."""
        while True:
            try:
                found, end = _decoder.raw_decode(self._held, self._at)
            except RecursionError:
                raise _Broken(BROKEN) from None
            except json.JSONDecodeError as error:
                open_ended = error.msg.startswith("Unterminated string") or error.pos >= len(self._held) - 16
                if not open_ended or len(self._held) - self._at > LONGEST:
                    raise _Broken(BROKEN) from None
                if not self._more():
                    raise _Broken(CUT) from None
                continue
            # A number at the end of what is held may go on.
            if end == len(self._held) and self._more():
                continue
            self._at = end
            return found

    def _more(self) -> bool:
        """Read on, as much again as is held; False at the end of the file."""
        if self._ended:
            return False
        rest = self._held[self._at :]
        piece = self._file.read(max(PIECE, len(rest)))
        self._ended = not piece
        self._book.saw(len(piece))
        self._held, self._at = rest + self._decode(piece, final=self._ended), 0
        return True
