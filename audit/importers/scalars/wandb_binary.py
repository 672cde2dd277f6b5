"""W&B's own file of a run, ``run-*.wandb``: all that an offline run of these years leaves.

Read in wandb 0.31: a header, then records in LevelDB's log format (blocks of 32 KiB; each piece has a CRC, a
length, and whether it is the whole, first, middle or last of a record), each a message of wandb's
``wandb_internal.proto``, of which only what is needed here is declared.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from audit.errors import BadLog

HEADER = b":W&B\xe1\xbe"
_HEADER_SIZE, _BLOCK, _PIECE = 7, 32768, struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LONGEST = 2**28
_MESSAGES = {
    "Record": {"history": (2, "History", False), "config": (5, "Config", False), "run": (17, "Run", False)},
    "History": {"item": (1, "Item", True)},
    "Run": {"config": (4, "Config", False)},
    "Config": {"update": (1, "Item", True)},
    "Item": {"key": (1, "", False), "nested_key": (2, "", True), "value_json": (16, "", False)},
}
"""Message → field → (number, message or text, repeated)."""


def histories(file: Path) -> Iterator[dict[str, Any]]:
    """Yield what each ``wandb.log`` wrote, nested names joined by ``/``; a cut file ends where it does.

    Raises
    ------
    BadLog
        It is no file of W&B, or is damaged.
    OSError
        It cannot be read.
    """
    for record in _messages(file):
        if record.HasField("history"):
            yield _values(record.history.item)


def config_of(file: Path) -> dict[str, Any]:
    """Return the config of the run, later changes on top.

    Raises
    ------
    BadLog, OSError
        As :func:`histories`.
    """
    found: dict[str, Any] = {}
    for record in _messages(file):
        if record.HasField("run"):
            found |= _values(record.run.config.update)
        if record.HasField("config"):
            found |= _values(record.config.update)
    return {name: value for name, value in found.items() if name != "_wandb"}


def _values(items: Any) -> dict[str, Any]:
    found = {}
    for item in items:
        try:
            found["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
        except (ValueError, RecursionError):
            continue
    return found


def _messages(file: Path) -> Iterator[Any]:
    from google.protobuf.message import DecodeError

    kind = _record()
    with file.open("rb") as stream:
        if not stream.read(_HEADER_SIZE).startswith(HEADER):
            msg = f"{file.name} is no file of W&B"
            raise BadLog(msg)
        for content in _records(stream, file.name):
            record = kind()
            try:
                record.ParseFromString(content)
            except DecodeError:
                msg = f"{file.name} is damaged: a record is none"
                raise BadLog(msg) from None
            yield record


def _records(stream: IO[bytes], name: str) -> Iterator[bytes]:
    at, held = _HEADER_SIZE, b""
    while True:
        left = _BLOCK - at % _BLOCK
        if left < _PIECE.size:
            stream.seek(left, 1)
            at += left
        head = stream.read(_PIECE.size)
        if len(head) < _PIECE.size:
            return
        _, size, kind = _PIECE.unpack(head)
        content = stream.read(size)
        if len(content) < size:
            return
        at += _PIECE.size + size
        if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or len(held) > _LONGEST:
            msg = f"{name} is damaged at byte {at}"
            raise BadLog(msg)
        held = content if kind in (_WHOLE, _FIRST) else held + content
        if kind in (_WHOLE, _LAST):
            yield held


@lru_cache(maxsize=1)
def _record() -> Any:
    """The class of a record."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    package = "rlaudit.wandb"
    declared = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _MESSAGES.items():
        made = declared.message_type.add(name=message)
        for field, (number, inner, many) in fields.items():
            made.field.add(
                name=field,
                number=number,
                type=kinds.TYPE_MESSAGE if inner else kinds.TYPE_STRING,
                type_name=f".{package}.{inner}" if inner else None,
                label=kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(declared)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Record"))
