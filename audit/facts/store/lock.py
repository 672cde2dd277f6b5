"""One process at a time computes and stores the facts of a run; the others wait, and then read."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

NAME = "facts.lock"
BEAT = 2.0
"""Seconds between the signs of life of the process that holds the lock."""
PATIENCE = 30.0
"""Seconds without a sign of life after which the holder is taken to hang."""


@contextmanager
def exclusive(folder: Path, waiting: Callable[[], None]) -> Iterator[str]:
    """Hold the lock of a folder.

    The operating system frees the lock of a process that ended, however it ended. One that is stopped, or
    whose machine is gone, gives no sign of life: after ``PATIENCE`` seconds this goes on without the lock.

    Parameters
    ----------
    waiting : callable
        Called once if another process holds the lock.

    Yields
    ------
    str
        Empty if the lock is held, else why it cannot be had, and nothing may be stored.
    """
    path = folder / NAME
    try:
        # The library takes a file that cannot be created for one that is locked, and would wait for it.
        tempfile.TemporaryFile(dir=folder).close()
        lock = FileLock(path)
        why_not = "" if _acquire(lock, path, waiting) else "another process holds its lock and does not go on"
    except (OSError, NotImplementedError) as error:
        yield f"it cannot be locked ({getattr(error, 'strerror', None) or error})"
        return
    if why_not:
        yield why_not
        return
    done = threading.Event()
    beating = threading.Thread(target=_beat, args=(path, done), daemon=True)
    beating.start()
    try:
        yield ""
    finally:
        done.set()
        beating.join()
        lock.release()


def _acquire(lock: FileLock, path: Path, waiting: Callable[[], None]) -> bool:
    with contextlib.suppress(Timeout):
        lock.acquire(timeout=0)
        return True
    waiting()
    seen, since = _sign(path), time.monotonic()
    while time.monotonic() - since < PATIENCE:
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=min(1.0, PATIENCE), poll_interval=0.02)
            return True
        now = _sign(path)
        if now != seen:
            seen, since = now, time.monotonic()
    return False


def _beat(path: Path, done: threading.Event) -> None:
    while not done.wait(BEAT):
        with contextlib.suppress(OSError):
            os.utime(path)


def _sign(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def is_free(folder: Path) -> bool:
    """Tell whether no process holds the lock of a folder now."""
    lock = FileLock(folder / NAME)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError, NotImplementedError):
        return False
    lock.release()
    return True
