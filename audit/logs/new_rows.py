"""Rows as a trainer has them → canonical rows, or one clear error."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from audit.errors import BadLog, MissingColumn, UnknownName
from audit.logs.canonical import to_canonical
from audit.schema import BY_NAME, REQUIRED, TOKEN_LISTS, arrow_schema

_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def hash_prompt(text: str) -> str:
    """Return the default ``prompt_id`` of a prompt: 16 hex digits, the same in every run and process."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def canonical_rows(
    rows: Sequence[Mapping[str, Any]] | pa.Table | pa.RecordBatch, *, first_row: int
) -> list[pa.RecordBatch]:
    """Return rows as batches of canonical columns; ``first_row`` counts them in messages.

    Raises
    ------
    UnknownName, MissingColumn, BadLog
        A column is not in the schema, a required one is absent, or a value does not fit.
    """
    if isinstance(rows, pa.RecordBatch):
        raw = [rows]
    elif isinstance(rows, pa.Table):
        raw = rows.to_batches()
    else:
        given = list(rows)  # of a generator too, which can be walked once
        raw = [_batch_of_mappings(given, first_row)] if given else []
    batches = []
    for batch in raw:
        batches.append(_checked(batch, first_row))
        first_row += batch.num_rows
    return batches


def _checked(batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    names = list(batch.schema.names)
    for name in names:
        if name not in BY_NAME:
            raise UnknownName.of("column", name, BY_NAME)
    if len(set(names)) < len(names):
        msg = f"rows to write: column '{next(n for n in names if names.count(n) > 1)}' is given twice."
        raise BadLog(msg)
    where = "rows to write"
    arrays = {name: to_canonical(batch.column(name), name, where) for name in names}
    if "prompt_id" not in arrays and "prompt" in arrays:
        texts = arrays["prompt"].to_pylist()
        arrays["prompt_id"] = pa.array([None if t is None else hash_prompt(t) for t in texts], pa.string())
    for name in REQUIRED:
        if name not in arrays:
            raise MissingColumn.needed_for(name, "a rollout row", names)
        if arrays[name].null_count and not BY_NAME[name].nullable:
            row = first_row + int(np.flatnonzero(np.asarray(arrays[name].is_null()))[0])
            msg = f"row {row}: '{name}' is null; the schema requires a value."
            raise BadLog(msg)
    _check_lengths(arrays, first_row)
    schema = pa.schema([field for field in arrow_schema() if field.name in arrays])
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _check_lengths(arrays: Mapping[str, pa.Array], first_row: int) -> None:
    """Raise for the first row whose token lists differ in length; a null list is not logged."""
    seen: tuple[str, np.ndarray] | None = None
    for name in TOKEN_LISTS:
        if name not in arrays:
            continue
        array = arrays[name]
        lengths = np.diff(np.asarray(array.offsets)).astype(np.int64)
        lengths[np.asarray(array.is_null())] = -1
        if seen is None:
            seen = name, lengths
            continue
        other, known = seen
        wrong = np.flatnonzero((lengths >= 0) & (known >= 0) & (lengths != known))
        if wrong.size:
            row = int(wrong[0])
            msg = (
                f"row {first_row + row}: '{name}' has {lengths[row]} values and '{other}' has {known[row]}; "
                f"all token lists of a row have one length."
            )
            raise BadLog(msg)
        seen = other, np.where(known >= 0, known, lengths)


def _batch_of_mappings(rows: Sequence[Mapping[str, Any]], first_row: int) -> pa.RecordBatch:
    names = list(dict.fromkeys(name for row in rows for name in row))
    arrays = [_array_of_values(name, [_plain(row.get(name)) for row in rows], first_row) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _array_of_values(name: str, values: list[Any], first_row: int) -> pa.Array:
    if name not in BY_NAME:
        raise UnknownName.of("column", name, BY_NAME)
    column = BY_NAME[name]
    # Arrow would cut 1.5 to the integer 1; the cast below refuses it.
    if column.type not in {"int64", "int32", "list<int32>"}:
        with contextlib.suppress(*_MISFITS):
            return pa.array(values, column.arrow_type)
    # Not canonical as it stands (0/1 masks, integer ids, dicts): let Arrow find the type, then cast.
    try:
        return to_canonical(pa.array(values), name, "rows to write")
    except _MISFITS as error:
        bad = next((i for i, value in enumerate(values) if not _fits(value, name)), 0)
        msg = f"row {first_row + bad}: '{name}' = {_short(values[bad])} does not fit {column.type}: {error}"
        raise BadLog(msg) from None


def _fits(value: Any, name: str) -> bool:
    try:
        to_canonical(pa.array([value]), name, "")
    except _MISFITS:
        return False
    return True


def _plain(value: Any) -> Any:
    """Turn a tensor into nested lists; numpy arrays and scalars are understood as they are."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "tolist"):
        return value
    return value.tolist()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
