"""Keep freed memory in the process while arrays of one size come and go."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3), glibc."""
_KEPT_BYTES, _LARGE_BYTES = 256 * 2**20, 16 * 2**20


@cache
def keep_freed_memory() -> bool:
    """Ask the C library not to hand every freed array back to the kernel; tell whether it will.

    By default glibc maps arrays above 128 KiB afresh each time, and the kernel clears their pages: measured,
    that took longer than all arithmetic of the token pass. Elsewhere nothing is changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))
