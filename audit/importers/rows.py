"""Rows of an importer → record batches of the rollout schema; what does not fit is counted, not guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from audit.importers.interface import Book, Row
from audit.importers.values import OddValue, flag, flags, identifier, integer, integers, number, numbers, text
from audit.logs.new_rows import hash_prompt
from audit.schema import BY_NAME, COLUMNS, TOKEN_LISTS, arrow_schema

MOST_ROWS = 1024
MOST_VALUES = 2_000_000
"""Tokens and characters of one batch, about: what is held at a time."""
ABSENT = "absent"

_READ: dict[str, Callable[[Any, str], Any]] = {
    "int64": integer,
    "int32": integer,
    "double": number,
    "bool": flag,
    "list<int32>": integers,
    "list<bool>": flags,
    "list<float>": numbers,
}
_IDS = ("prompt_id", "group_id", "trajectory_id")
_LIMITS = {"int32": 2**31, "int64": 2**63}


def as_row(found: Mapping[str, Any]) -> Row:
    """Return a row with values of the schema's kinds; what is no column goes to ``extra`` as JSON.

    Raises
    ------
    OddValue
        A value cannot mean what its column says, or token lists differ in length.
    """
    row: Row = {}
    extra: dict[str, Any] = {}
    for name, value in found.items():
        column = BY_NAME.get(name)
        if column is None:
            extra[name] = value
        elif name == "extra":
            extra.update(value) if isinstance(value, dict) else extra.setdefault("extra", value)
        else:
            row[name] = _value(value, name, column.type)
    length = None
    for name in TOKEN_LISTS:
        values = row.get(name)
        if values is None:
            continue
        if length is not None and len(values) != length[1]:
            msg = f"{name} and {length[0]} differ in length"
            raise OddValue(msg)
        length = (name, len(values))
    if row.get("length") is None and length is not None:
        row["length"] = length[1]
    if row.get("prompt_id") is None and row.get("prompt") is not None:
        row["prompt_id"] = hash_prompt(row["prompt"])
    if row.get("prompt_id") is None:
        raise OddValue("no prompt")
    if extra := {name: value for name, value in extra.items() if value is not None}:
        row["extra"] = json.dumps(extra, ensure_ascii=True, default=str)
    return row


def _value(value: Any, name: str, kind: str) -> Any:
    if value is None:
        return None
    if name in _IDS:
        return identifier(value, name)
    if kind == "string":
        return text(value)
    if kind == "map<string, double>":
        return _components(value, name)
    if kind.startswith("timestamp"):
        return _moment(value, name)
    read = _READ[kind](value, name)
    limit = _LIMITS.get(kind)
    if limit is not None and read is not None and not -limit <= read < limit:
        msg = f"{name} does not fit {kind}"
        raise OddValue(msg)
    if kind == "list<int32>" and read is not None and len(read):
        low, high = min(read), max(read)
        if not -(2**31) <= low <= high < 2**31:
            msg = f"a value of {name} does not fit int32"
            raise OddValue(msg)
    return read


def _components(value: Any, name: str) -> list[tuple[str, float]] | None:
    if not isinstance(value, Mapping):
        msg = f"{name} is no object of numbers"
        raise OddValue(msg)
    made = [(str(key), number(each, f"{name} {key!r}")) for key, each in value.items()]
    return [(key, each) for key, each in made if each is not None]


def _moment(value: Any, name: str) -> Any:
    """Return a time as Arrow takes it: seconds since 1970, or ISO text; without a zone it is UTC."""
    from datetime import UTC, datetime

    try:
        if isinstance(value, datetime):
            made = value
        elif isinstance(value, str):
            made = datetime.fromisoformat(value)
        else:
            made = datetime.fromtimestamp(float(value), UTC)
    except (ValueError, TypeError, OverflowError, OSError):
        msg = f"{name} is no time"
        raise OddValue(msg) from None
    return made.replace(tzinfo=UTC) if made.tzinfo is None else made.astimezone(UTC)


def checked(found: Iterable[Row], book: Book) -> Iterator[Row]:
    """Yield the rows that fit, counting all."""
    for row in found:
        try:
            made = as_row(row)
        except OddValue as odd:
            book.reject(str(odd))
            continue
        except RecursionError:
            book.reject("a value is nested too deeply")
            continue
        book.read += 1
        yield made


def batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Gather rows into batches of every column of the schema, bounded in rows and values."""
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += sum(len(v) for v in row.values() if isinstance(v, str) or hasattr(v, "__len__"))
        if len(held) >= MOST_ROWS or size >= MOST_VALUES:
            yield batch_of(held)
            held, size = [], 0
    if held:
        yield batch_of(held)


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    """Return rows as one batch, absent values null."""
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema()])
    arrays = [pa.array([row.get(c.name) for row in rows], c.arrow_type) for c in COLUMNS]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
