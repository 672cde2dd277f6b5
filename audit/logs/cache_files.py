"""Small files of a cache: read whole or not at all, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path

from audit.logs.cache_place import claim


def read_cached(file: Path) -> bytes | None:
    """Return the bytes of a file of a cache; None where there is no regular file to read.

    The name comes from a folder that anybody may have made: opening a pipe would wait for its writer.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    with contextlib.suppress(OSError), os.fdopen(descriptor, "rb") as opened:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return opened.read()
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
