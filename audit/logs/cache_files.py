"""Small files of a cache: read whole or not at all, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path

from audit.logs.cache_place import claim

LARGEST = 2**28
"""Bytes of a file that is read: an index of a million files is smaller, and is larger than any other."""


def read_cached(file: Path) -> bytes | None:
    """Return the bytes of a file of a cache; None where there is none, or one larger than any of ours.

    The name comes from a folder that anybody may have made: opening a pipe would wait for its writer.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    with contextlib.suppress(OSError), os.fdopen(descriptor, "rb") as opened:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            content = opened.read(LARGEST + 1)
            return content if len(content) <= LARGEST else None
    return None


def write_cached(file: Path, content: bytes, log: str | Path) -> bool:
    """Put a file into the cache folder of the log at ``log``, in one step; False where it cannot be."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident():x}.tmp")
    try:
        claim(file.parent, log)
        temporary.write_bytes(content)
        os.replace(temporary, file)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        return False
    return True
