"""The user's cache has a limit: what was not used for longest goes first.

``RLAUDIT_CACHE_LIMIT`` sets it, as in ``500MB`` or ``20GB``; default 10 GB. Inside a run there is none: facts
are small beside the log, and those of files that are gone are removed.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import time
from pathlib import Path

from audit.errors import AuditError
from audit.facts.store.lock import is_free
from audit.logs.cache_place import NAME, OWNER, RUNS, user_cache

_DEFAULT = "10GB"
_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_RECENT = 3600.0
"""Seconds for which a use need not be noted again."""


def cache_limit() -> int:
    """Return the most bytes that the user's cache may hold.

    Raises
    ------
    AuditError
        ``RLAUDIT_CACHE_LIMIT`` is not a size.
    """
    text = os.environ.get("RLAUDIT_CACHE_LIMIT") or _DEFAULT
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?b?)", text.strip().lower())
    limit = math.nan
    if found is not None:
        unit = found[2] if found[2] in _UNITS else found[2] + "b"
        limit = float(found[1]) * _UNITS.get(unit, 1)
    if not math.isfinite(limit):
        msg = f"RLAUDIT_CACHE_LIMIT={text[:40]}: not a size. Write it as 500MB or 20GB."
        raise AuditError(msg)
    return int(limit)


def note_use(place: Path) -> None:
    """Note that a folder of the user's cache is in use."""
    owner = place / OWNER
    with contextlib.suppress(OSError):
        if place.name != NAME and time.time() - owner.stat().st_mtime > _RECENT:
            os.utime(owner)


def enforce_limit(place: Path) -> bool:
    """Remove folders of the user's cache, least recently used first, until it is within its limit.

    Parameters
    ----------
    place : Path
        The folder in use: it goes last.

    Returns
    -------
    bool
        False if ``place`` itself had to go, since it alone is over the limit.
    """
    if place.name == NAME:
        return True
    limit = cache_limit()
    sizes = {folder: folder_size(folder) for folder in user_places()}
    total = sum(sizes.values())
    for folder in sorted(sizes, key=lambda folder: (folder == place, _last_use(folder), folder.name)):
        if total <= limit:
            return True
        if folder != place and not is_free(folder):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        total -= sizes[folder]
        if folder == place:
            return False
    return True


def user_places() -> list[Path]:
    """Return the folders of the user's cache, one per log."""
    try:
        folders = [path for path in (user_cache() / RUNS).iterdir() if path.is_dir()]
    except OSError:
        return []
    return sorted(folder for folder in folders if not folder.is_symlink())


def folder_size(folder: Path) -> int:
    """Bytes of the files below a folder."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def _last_use(folder: Path) -> float:
    try:
        return (folder / OWNER).stat().st_mtime
    except OSError:
        return 0.0
