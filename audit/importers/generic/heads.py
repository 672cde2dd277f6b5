"""Names and kinds of the columns of a file of records, by its footer or its first records."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from audit.errors import BadLog
from audit.importers.generic.files import kind_of, records_of
from audit.importers.interface import Book
from audit.logs.parquet_part import open_parquet

Kind = Literal["number", "text", "numbers", "other"]
Head = dict[str, Kind]
"""Name → what its values are; ``numbers`` are lists of numbers."""
FIRST = 3
"""Records of a file without a footer that are read."""


def head_of(file: Path) -> Head:
    """Return the columns of a file in its order; none where it cannot be read, or has a name twice."""
    try:
        # Looked at before it is opened: opening a pipe would wait for its writer.
        if not file.is_file():
            return {}
        if kind_of(file) == ".parquet":
            with open_parquet(file) as parquet:
                schema = parquet.schema_arrow
            unique = len(set(schema.names)) == len(schema.names)
            return {field.name: _of_type(field.type) for field in schema} if unique else {}
        return head_of_records(islice(records_of(file, Book()), FIRST))
    except (OSError, EOFError, zlib.error, BadLog, ValueError, pa.ArrowException):
        return {}


def head_of_records(records: Iterable[Mapping[str, Any]]) -> Head:
    """Return the names of records, with the kind of the first value that is there."""
    head: Head = {}
    for record in records:
        for name, value in record.items():
            if head.setdefault(str(name), "other") == "other":
                head[str(name)] = _of_value(value)
    return head


def _of_type(found: pa.DataType) -> Kind:
    kinds = pa.types
    if kinds.is_dictionary(found):
        found = found.value_type
    if kinds.is_list(found) or kinds.is_large_list(found):
        return "numbers" if _of_type(found.value_type) == "number" else "other"
    if kinds.is_string(found) or kinds.is_large_string(found):
        return "text"
    numeric = kinds.is_integer(found) or kinds.is_floating(found) or kinds.is_boolean(found)
    return "number" if numeric or kinds.is_decimal(found) else "other"


def _of_value(value: Any) -> Kind:
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bool, int, float)):
        return "number"
    if isinstance(value, list) and value and isinstance(value[0], (int, float)):
        return "numbers"
    return "other"
