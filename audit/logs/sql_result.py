"""The rows of a query in plain values: what JSON, CSV and a browser hold without loss."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import msgspec

EXACT = 2**53
"""Integers beyond this are not all exact in a browser or in JSON readers."""


class SqlColumn(msgspec.Struct, frozen=True):
    """One column of a result."""

    name: str
    type: str
    """DuckDB's name of the type."""


class QueryResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a query returned."""

    schema: str = "rlaudit.sql.v1"
    run: str
    query: str
    columns: list[SqlColumn]
    rows: list[list[Any]]
    """Plain values, columns in their order. A column with an integer beyond 2^53 holds text."""
    n: int
    """Rows that are here."""
    more: bool
    """Whether the query has more rows than were asked for."""
    seconds: float


def result_of(
    run: str,
    query: str,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    *,
    more: bool,
    seconds: float,
) -> QueryResult:
    """Make a result of fetched rows."""
    plain = [[plain_value(value) for value in row] for row in rows]
    for at in range(len(columns)):
        if any(_inexact(row[at]) for row in plain):
            for row in plain:
                row[at] = _as_text(row[at])
    return QueryResult(
        run=run,
        query=query,
        columns=[SqlColumn(name, kind) for name, kind in columns],
        rows=plain,
        n=len(plain),
        more=more,
        seconds=round(seconds, 3),
    )


def plain_value(value: Any) -> Any:
    """Return null, a truth value, an integer, a float, text, or lists and objects of them.

    NaN and infinities stay floats; what JSON has no type for (decimals, times, UUIDs, bytes) becomes text.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain_value(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain_value(each) for key, each in value.items()}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


def _inexact(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_inexact, value))
    if isinstance(value, dict):
        return any(map(_inexact, value.values()))
    return isinstance(value, int) and abs(value) > EXACT


def _as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    if isinstance(value, dict):
        return {key: _as_text(each) for key, each in value.items()}
    if value is None or isinstance(value, (bool, str)):
        return value
    return str(value)


def cell(value: Any) -> str:
    """Return a value as the text of one cell; nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, (list, dict)):
        return msgspec.json.encode(value).decode()
    return str(value)
