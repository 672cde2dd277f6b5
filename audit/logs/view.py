"""The DuckDB view ``rollouts`` over a run.

DuckDB reads by itself what it is known to read exactly as :meth:`audit.logs.Run.batches` does; every other
file reaches it as a stream of canonical Arrow batches. Nothing is left to its own detection: no patterns, no
partition columns from folder names, no type taken from the first file.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from audit.logs.batching import batch_schema
from audit.logs.canonical import is_list, plain_type
from audit.logs.parquet_part import ParquetPart
from audit.logs.parts import Part
from audit.logs.places import is_remote
from audit.schema import COLUMNS, Column

if TYPE_CHECKING:
    import duckdb

_SQL_TYPES = {
    "int64": "BIGINT",
    "int32": "INTEGER",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "string": "VARCHAR",
    "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
    "list<int32>": "INTEGER[]",
    "list<bool>": "BOOLEAN[]",
    "list<float>": "FLOAT[]",
    "map<string, double>": "MAP(VARCHAR, DOUBLE)",
}
_VIRTUAL = frozenset({"filename", "file_index", "file_row_number"})
"""Names by which DuckDB says where a row comes from; a column of the same name hides them."""

_FLOAT_MAX = float(np.finfo(np.float32).max)
_NAMES = tuple(column.name for column in COLUMNS)
_BATCH_TOKENS = 1_000_000


def connect(parts: Sequence[Part]) -> duckdb.DuckDBPyConnection:
    """Return a new in-memory database with the view ``rollouts``; see :meth:`audit.logs.Run.connect`."""
    import duckdb

    # DuckDB would spill into the working directory, which may be a log that must not change.
    spill = Path(tempfile.gettempdir()) / f"rlaudit-{os.getpid()}-{secrets.token_hex(4)}"
    connection = duckdb.connect(config={"autoinstall_known_extensions": False, "temp_directory": str(spill)})
    connection.execute("SET TimeZone = 'UTC'")
    # One scan per distinct file schema: in a scan of several, the types of its first file win.
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    streamed = []
    for place, part in enumerate(parts):
        select = _direct_select(part)
        if select is None:
            streamed.append(place)
        else:
            groups[select].append(place)
    selects = []
    for (_, columns), places in groups.items():
        exact = _read_as_asked(connection, [parts[place] for place in places])
        streamed += [place for place, right in zip(places, exact, strict=True) if not right]
        if direct := [place for place, right in zip(places, exact, strict=True) if right]:
            selects.append(_select(columns, [parts[place] for place in direct], direct))
    if streamed or not selects:
        connection.register("_streamed", _ArrowStream(parts, sorted(streamed)))
        selects.append("SELECT * FROM _streamed")
    connection.execute(f"CREATE VIEW rollouts AS {' UNION ALL BY NAME '.join(selects)}")
    return connection


class _ArrowStream:
    """Canonical rows of some parts, with their place, as an Arrow stream that can be opened repeatedly."""

    def __init__(self, parts: Sequence[Part], places: Sequence[int]) -> None:
        self._parts, self._places = parts, places
        self._schema = (
            batch_schema(_NAMES).append(pa.field("_file", pa.int32())).append(pa.field("_row", pa.int64()))
        )

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for place in self._places:
            row = 0
            for batch in self._parts[place].batches(_NAMES, max_tokens=_BATCH_TOKENS):
                rows = batch.num_rows
                yield pa.RecordBatch.from_arrays(
                    [
                        *batch.columns,
                        pa.repeat(pa.scalar(place, pa.int32()), rows),
                        pa.array(np.arange(row, row + rows, dtype=np.int64)),
                    ],
                    schema=self._schema,
                )
                row += rows


def _direct_select(part: Part) -> tuple[str, str] | None:
    """Return (file schema, columns of a SELECT) if DuckDB reads the part exactly, else None."""
    if not isinstance(part, ParquetPart) or is_remote(part.file.root):
        return None
    lowered = [name.lower() for name in (*part.types, *part.unknown)]
    if len(set(lowered)) < len(lowered) or not _VIRTUAL.isdisjoint(lowered):
        return None
    columns = []
    for column in COLUMNS:
        expression = _expression(column, part)
        if expression is None:
            return None
        if column.default is not None:
            expression = f"coalesce({expression}, {str(column.default).lower()})"
        columns.append(f"{expression} AS {quote_name(column.name)}")
    return part.signature, ", ".join(columns)


def _expression(column: Column, part: ParquetPart) -> str | None:
    found, wanted = plain_type(part.types.get(column.name, pa.null())), column.arrow_type
    name, sql_type = quote_name(column.name), _SQL_TYPES[column.type]
    if pt.is_null(found):
        return f"NULL::{sql_type}"
    if pt.is_timestamp(found) and not found.tz:
        return f"timezone('UTC', CAST({name} AS TIMESTAMP))" if found.unit in {"ms", "us"} else None
    if (pt.is_list(wanted) and not is_list(found)) or (pt.is_map(wanted) and not pt.is_map(found)):
        return None
    if pt.is_list(wanted):
        found, wanted = plain_type(found.value_type), wanted.value_type
    elif pt.is_map(wanted):
        found, wanted = plain_type(found.item_type), wanted.item_type
    if _same_by_cast(found, wanted) or _fits(part, column.name, found, wanted):
        return f"CAST({name} AS {sql_type})"
    return None


def _same_by_cast(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether DuckDB's cast and Arrow's give the same value, or both refuse."""
    if found.equals(wanted):
        return True
    if pt.is_timestamp(wanted):
        return bool(pt.is_timestamp(found) and found.unit in {"ms", "us"})
    if pt.is_string(wanted):
        return bool(pt.is_large_string(found) or pt.is_string_view(found) or pt.is_integer(found))
    if pt.is_integer(found):
        return bool(pt.is_integer(wanted) or pt.is_floating(wanted))
    return bool(pt.is_float32(found) and pt.is_float64(wanted))


def _fits(part: ParquetPart, column: str, found: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell from the footer that no value meets the edge at which the two casts part ways."""
    if pt.is_boolean(wanted) and pt.is_integer(found):
        low, high = 0.0, 1.0
    elif pt.is_float32(wanted) and pt.is_float64(found):
        low, high = -_FLOAT_MAX, _FLOAT_MAX
    else:
        return False
    limits = part.value_range(column)
    return limits is not None and low <= limits[0] and limits[1] <= high


def _select(columns: str, parts: Sequence[Part], places: list[int]) -> str:
    return (
        f"SELECT {columns}, CAST({places}[CAST(file_index AS BIGINT) + 1] AS INTEGER) AS _file, "
        f"CAST(file_row_number AS BIGINT) AS _row "
        f"FROM read_parquet({_file_list(parts)}, hive_partitioning = false)"
    )


def _read_as_asked(connection: duckdb.DuckDBPyConnection, parts: Sequence[Part]) -> list[bool]:
    """Tell for each part whether DuckDB opens that very file: its name and its number of rows."""
    query = f"SELECT file_name, num_rows FROM parquet_file_metadata({_file_list(parts)})"
    opened = dict(connection.execute(query).fetchall())
    if len(opened) != len(parts):
        return [False] * len(parts)
    return [opened.get(_absolute(part)) == part.num_rows for part in parts]


def _absolute(part: Part) -> str:
    assert isinstance(part, ParquetPart)
    return str(part.file.path.absolute())


def _file_list(parts: Sequence[Part]) -> str:
    return f"[{', '.join(quote_text(escape_glob(_absolute(part))) for part in parts)}]"


def escape_glob(path: str) -> str:
    """Return ``path`` so that DuckDB, which takes every path for a pattern, means this very file."""
    return "".join(f"[{character}]" if character in "[*?" else character for character in path)


def quote_text(text: str) -> str:
    """Return a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
