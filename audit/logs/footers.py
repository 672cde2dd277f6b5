"""What the footers of a run's files say, kept in one small file per run, so that each is read once.

An entry holds for a file of the same name, size and mtime_ns only. Nothing depends on the file being there:
without a place for it, or with a damaged one, the footers are read again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from audit.errors import BadLog
from audit.logs.cache_files import read_cached, write_cached
from audit.logs.cache_place import cache_place
from audit.logs.canonical import check_type
from audit.logs.files import Identity, RunFile
from audit.logs.places import is_remote
from audit.schema import BY_NAME

NAME = "footers.v1.msgpack"
FEWEST = 16
"""A local run of fewer files is opened as fast without an index."""
YOUNG = 2.0
"""Seconds: a file written so recently may be written again without its time telling."""


@dataclass(frozen=True)
class Kind:
    """The columns of a file; shared by all files that have the same."""

    signature: str
    """Names and types of all columns; equal for files that can be read in one scan."""
    types: Mapping[str, pa.DataType]
    """Types, as found, of the columns that the rollout schema knows."""
    unknown: tuple[str, ...]
    schema: bytes
    """Arrow IPC."""


@dataclass(slots=True)
class Footer:
    """What a footer says, and what has been asked about the values of its columns so far."""

    kind: Kind
    rows: int
    answers: dict[str, bool] = field(default_factory=dict)
    """Column → it holds a value; replaced, never changed, since files share it."""
    saved: int = -1
    """How many of the answers the index holds."""


_KINDS: dict[str, Kind] = {}


def kind_of(schema: pa.Schema, where: Path | str) -> Kind:
    """Return the columns of a schema, checked once for all files that have the same.

    Raises
    ------
    BadLog
        A column has a type that cannot mean what the rollout schema says, or appears twice.
    """
    signature = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    if signature in _KINDS:
        return _KINDS[signature]
    names = schema.names
    types = {name: schema.field(names.index(name)).type for name in names if name in BY_NAME}
    for name, found in types.items():
        if names.count(name) > 1:
            msg = f"{where}: column '{name}' appears {names.count(name)} times."
            raise BadLog(msg)
        check_type(found, BY_NAME[name], str(where))
    unknown = tuple(name for name in names if name not in BY_NAME)
    if len(_KINDS) > 4096:
        _KINDS.clear()
    kind = Kind(signature, types, unknown, schema.remove_metadata().serialize().to_pybytes())
    return _KINDS.setdefault(signature, kind)


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    schemas: list[bytes]
    names: list[str]
    sizes: list[int]
    times: list[int]
    rows: list[int]
    kinds: list[int]
    columns: list[str]
    """Columns of the rollout schema by the bits of ``held`` and ``bare``."""
    held: list[int]
    bare: list[int]


class FooterIndex:
    """The footers of one run that are known from before."""

    def __init__(self, run: Path) -> None:
        """Read the index of the run directory, if there is one."""
        self._run = run
        self._remote = is_remote(run)
        self.known: dict[Identity, Footer] = {}
        place = cache_place(str(run))
        self._file = None if place is None else place / NAME
        content = None if self._file is None else read_cached(self._file)
        if content is not None:
            # Damaged or from another version: as if it were not there.
            with contextlib.suppress(ValueError, IndexError, pa.ArrowException):
                self.known = dict(_entries(msgspec.msgpack.decode(content, type=_Stored)))

    def save(self, footers: Sequence[tuple[RunFile, Footer]]) -> None:
        """Keep the footers, in file order, for the next opening, if there is something new to keep."""
        if self._file is None or all(footer.saved == len(footer.answers) for _, footer in footers):
            return
        oldest = time.time_ns() - int(YOUNG * 1e9)
        kept = {file.identity: f for file, f in footers if self._remote or file.mtime_ns < oldest}
        new = any(footer.saved < len(footer.answers) for footer in kept.values())
        if not new or len(kept) < (1 if self._remote else FEWEST):
            return
        if not write_cached(self._file, msgspec.msgpack.encode(_stored(kept)), str(self._run)):
            return
        for footer in kept.values():
            footer.saved = len(footer.answers)


def _entries(stored: _Stored) -> Iterator[tuple[Identity, Footer]]:
    kinds = [kind_of(pa.ipc.read_schema(pa.py_buffer(schema)), NAME) for schema in stored.schemas]
    # Most files have the same answers.
    decoded: dict[tuple[int, int], dict[str, bool]] = {}
    keys = zip(stored.names, stored.sizes, stored.times, strict=True)
    rest = zip(stored.rows, stored.kinds, stored.held, stored.bare, strict=True)
    for key, (rows, kind, held, bare) in zip(keys, rest, strict=True):
        answers = decoded.get((held, bare))
        if answers is None:
            answers = {n: True for bit, n in enumerate(stored.columns) if held >> bit & 1}
            answers |= {n: False for bit, n in enumerate(stored.columns) if bare >> bit & 1}
            decoded[held, bare] = answers
        yield key, Footer(kinds[kind], rows, answers, len(answers))


def _stored(footers: Mapping[Identity, Footer]) -> _Stored:
    columns = list(BY_NAME)
    bit = {name: 1 << place for place, name in enumerate(columns)}
    kinds: dict[str, int] = {}
    schemas: list[bytes] = []
    for footer in footers.values():
        if footer.kind.signature not in kinds:
            kinds[footer.kind.signature] = len(schemas)
            schemas.append(footer.kind.schema)
    return _Stored(
        schemas=schemas,
        names=[key[0] for key in footers],
        sizes=[key[1] for key in footers],
        times=[key[2] for key in footers],
        rows=[footer.rows for footer in footers.values()],
        kinds=[kinds[footer.kind.signature] for footer in footers.values()],
        columns=columns,
        held=[sum(bit[n] for n, held in f.answers.items() if held) for f in footers.values()],
        bare=[sum(bit[n] for n, held in f.answers.items() if not held) for f in footers.values()],
    )
