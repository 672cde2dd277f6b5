"""Results of a run that are kept beside its facts, for this version of the log and of the program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from audit.logs.cache_files import read_cached, write_cached
from audit.logs.cache_place import cache_place
from audit.logs.footers import YOUNG
from audit.logs.places import is_remote
from audit.logs.run import Run

Result = TypeVar("Result", bound=msgspec.Struct)


class _Kept(msgspec.Struct, frozen=True):
    key: str
    result: msgspec.Raw


def kept(run: Run, name: str, type_: type[Result], make: Callable[[Run], Result]) -> Result:
    """Return a result of a run: the one that is kept, or a new one.

    A result holds as long as no file of the run, nothing of its manifest and no file of this program changed.
    It is not kept where a file is so young that it may be written again without its time telling, nor where
    there is no place for it.

    Parameters
    ----------
    name : str
        Of the file that keeps it.
    type_ : type
        Of the result: a struct that survives MessagePack.
    make : callable
        Makes it, of the rows and the manifest of the run alone.

    Raises
    ------
    AuditError
        What ``make`` raises.
    """
    place = cache_place(run.place)
    if place is None or not run.files:
        return make(run)
    file, key = place / f"{name}.v1.msgpack", _key(run)
    found = _read(file, key, type_)
    if found is not None:
        return found
    raw = msgspec.Raw(_ENCODER.encode(make(run)))
    if is_remote(run.place) or _is_settled(run):
        write_cached(file, _ENCODER.encode(_Kept(key, raw)), run.place)
    # Read back, so that a result is the same whether it was kept or not.
    return msgspec.msgpack.decode(raw, type=type_)


def _number(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(type(value))


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_number)


def _read(file: Path, key: str, type_: type[Result]) -> Result | None:
    content = read_cached(file)
    if content is None:
        return None
    # Damaged, or of another version: as if it were not there.
    try:
        held = msgspec.msgpack.decode(content, type=_Kept)
        return msgspec.msgpack.decode(held.result, type=type_) if held.key == key else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _is_settled(run: Run) -> bool:
    return max(file.mtime_ns for file in run.files) < time.time_ns() - YOUNG * 1e9


def _key(run: Run) -> str:
    """Digest of everything that a result can depend on; a run that was moved as a whole has the same."""
    said = repr(
        (
            _program(),
            run.run_id,
            run.format,
            run.log_files,
            [file.identity for file in run.files],
            [(skipped.path.name, skipped.reason) for skipped in run.skipped],
            sorted(run.rejected.items()),
            run.notes,
            run.manifest,
        )
    )
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@cache
def _program() -> str:
    """Digest of the files of this program and of the versions of what it computes with."""
    digest = blake2b(f"{np.__version__} {pa.__version__}".encode(), digest_size=16)
    root = str(Path(__file__).parents[1])
    for path, state in sorted(_files(root)):
        digest.update(f"{path} {state.st_size} {state.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            else:
                yield entry.path, entry.stat()
