"""What writers produce → the canonical types of the rollout schema, one column at a time.

Equal meaning comes in many types: large or fixed-size lists, dictionary strings, half or double floats,
integer rewards in the one file where all of them were whole, the null type where nothing was logged. Each
file is cast on its own to the canonical type, never to the type of the first file. A cast that would change
a value (3.5 → step 3, mask value 2 → true) is refused; only rounding to the nearest float is allowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from audit.errors import BadLog
from audit.logs.arrays import zeros
from audit.schema import BY_NAME, Column


def plain_type(found: pa.DataType) -> pa.DataType:
    """Return the type behind dictionary encoding and extension wrappers."""
    while True:
        if isinstance(found, pa.BaseExtensionType):
            found = found.storage_type
        elif pt.is_dictionary(found):
            found = found.value_type
        else:
            return found


def is_list(found: pa.DataType) -> bool:
    """Tell whether the type is one of the list types that convert to a canonical list."""
    return bool(pt.is_list(found) or pt.is_large_list(found) or pt.is_fixed_size_list(found))


def convertible(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether values of type ``found`` can mean values of the canonical type ``wanted``."""
    found = plain_type(found)
    if pt.is_null(found) or found.equals(wanted):
        return True
    if pt.is_list(wanted):
        return is_list(found) and convertible(found.value_type, wanted.value_type)
    if pt.is_map(wanted):
        return _is_mapping(found, wanted)
    if pt.is_string(wanted):
        accepted = pt.is_large_string(found) or pt.is_string_view(found) or pt.is_integer(found)
    elif pt.is_timestamp(wanted):
        accepted = pt.is_timestamp(found)
    else:
        accepted = pt.is_integer(found) or pt.is_floating(found) or pt.is_boolean(found)
        accepted = accepted or (pt.is_floating(wanted) and pt.is_decimal(found))
    return bool(accepted)


def _is_mapping(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_struct(found):
        return all(convertible(field.type, wanted.item_type) for field in found)
    return (
        bool(pt.is_map(found))
        and convertible(found.key_type, wanted.key_type)
        and convertible(found.item_type, wanted.item_type)
    )


def check_type(found: pa.DataType, column: Column, where: str) -> None:
    """Raise :class:`~audit.errors.BadLog` unless ``found`` converts to the type of ``column``."""
    if not convertible(found, column.arrow_type):
        msg = (
            f"{where}: column '{column.name}' has type {found}; expected {column.type}, or a type that "
            f"converts to it without loss (see schemas/README.md)."
        )
        raise BadLog(msg)


def empty_column(column: Column, rows: int) -> pa.Array:
    """Return what an absent column reads as: its default, or nulls."""
    if column.default is None:
        return pa.nulls(rows, column.arrow_type)
    if column.default:
        return pa.repeat(pa.scalar(column.default, column.arrow_type), rows)
    return zeros(rows, column.arrow_type)


def to_canonical(array: Any, name: str, where: str) -> pa.Array:
    """Cast one array to the canonical type of column ``name``; nulls of a column with a default become it.

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
        The values as the file holds them.
    name : str
        A column of the rollout schema.
    where : str
        File, for messages.

    Returns
    -------
    pyarrow.Array
        Same length. A null list stays null ("not logged"), an empty list stays empty ("empty response").

    Raises
    ------
    BadLog
        The type cannot mean the column, or a value would not survive the cast.
    """
    column = BY_NAME[name]
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not array.type.equals(column.arrow_type):
        check_type(array.type, column, where)
        try:
            array = _cast(array, column.arrow_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            why = str(error).splitlines()[0]
            msg = f"{where}: column '{name}' ({array.type}) does not fit {column.type}: {why}"
            raise BadLog(msg) from None
    if column.default is not None and array.null_count:
        # Not fill_null, whose scalar costs the import of pandas.
        array = pc.coalesce(array, empty_column(column, len(array)))
    return array


def _cast(array: Any, wanted: pa.DataType) -> Any:
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pt.is_dictionary(array.type):
            array = array.dictionary_decode()
        else:
            break
    found = array.type
    if pt.is_null(found):
        return pa.nulls(len(array), wanted)
    if pt.is_struct(found) and pt.is_map(wanted):
        return _struct_to_map(array, wanted)
    if pt.is_list(wanted):
        return _cast_list(array, wanted)
    if pt.is_boolean(wanted) and not pt.is_boolean(found):
        return _flags(array)
    if pt.is_timestamp(found) or pt.is_floating(wanted):
        # Nanoseconds lose their last digits and floats are rounded to the nearest: the only losses allowed.
        return array.cast(wanted, safe=False)
    if pt.is_boolean(found) and pt.is_integer(wanted):
        array = array.cast(pa.int8())
    return array.cast(wanted)


def _cast_list(array: Any, wanted: pa.DataType) -> Any:
    if not pt.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    if array.type.equals(wanted):
        return array
    # A slice keeps the offsets and the values of its parent: take the part that belongs to it.
    start, stop = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    values = _cast(array.values.slice(start, stop - start), wanted.value_type)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(pc.subtract(array.offsets, start), values, type=wanted, mask=mask)


def _flags(array: Any) -> Any:
    other = pc.and_(pc.not_equal(array, 0), pc.not_equal(array, 1))
    if pc.any(other).as_py():
        msg = f"value {array.filter(other)[0].as_py()} is neither 0 nor 1"
        raise pa.ArrowInvalid(msg)
    return pc.equal(array, 1)


def _struct_to_map(array: Any, wanted: pa.DataType) -> Any:
    """Turn {'a': 1.0, 'b': null} into [('a', 1.0)]: a null field means that the row has no such part."""
    names = [field.name for field in array.type]
    rows = len(array)
    valid_row = np.asarray(array.is_valid())
    held = np.zeros((rows, len(names)), dtype=bool)
    values = np.zeros((rows, len(names)))
    for place, name in enumerate(names):
        field = _cast(array.field(name), wanted.item_type)
        held[:, place] = np.asarray(field.is_valid()) & valid_row
        values[:, place] = np.asarray(field.fill_null(0.0))
    offsets = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int32)
    keys = pa.array(np.tile(np.array(names, dtype=object), (rows, 1))[held], pa.string())
    marks = np.append(~valid_row, False)
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32(), mask=marks), keys, pa.array(values[held], wanted.item_type)
    )
