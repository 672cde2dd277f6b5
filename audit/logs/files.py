"""Which Parquet files under a run may be read, and why the others may not.

Files are listed here and handed on as an explicit list, never as a pattern: a pattern follows bracket and
partition syntax in names, misses linked folders, and one half-written file fails the whole query.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from audit.logs.places import is_link, is_remote, open_binary, store_of
from audit.logs.walk import SUFFIX, Found, SkippedFile, is_inside, is_parquet_name, object_version, walk

__all__ = ["ROLLOUTS", "SUFFIX", "RunFile", "SkippedFile", "check_file", "is_parquet_name", "list_files"]

ROLLOUTS = "rollouts"
Identity = tuple[str, int, int]
"""(name, size, mtime_ns) of a file of a run."""
_MAGIC = b"PAR1"
_SMALLEST = 12
"""Magic, footer length, magic: nothing shorter can be Parquet."""


class RunFile(msgspec.Struct, frozen=True):
    """A readable Parquet file of a run, as it was when the run was opened."""

    root: Path
    """The run directory; of a single file the folder that it lies in."""
    name: str
    """Path relative to the run, with forward slashes."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Of an object in storage: :func:`audit.logs.walk.object_version`, which knows more than its time."""

    @property
    def path(self) -> Path:
        """The file itself."""
        return self.root / self.name

    @property
    def fingerprint(self) -> tuple[str, int, int]:
        """(path, size, mtime_ns): equal as long as the file has not been written to."""
        return (str(self.path), self.size, self.mtime_ns)

    @property
    def identity(self) -> Identity:
        """(name, size, mtime_ns): the same for a run that was moved as a whole."""
        return (self.name, self.size, self.mtime_ns)

    def unchanged(self) -> bool:
        """Tell whether the file is still the one that was opened.

        Raises
        ------
        Exception
            Of a storage client, where the storage cannot be reached.
        """
        try:
            return state_of(self.path) == (self.size, self.mtime_ns)
        except OSError:
            return False


def numeric_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``step2`` comes before ``step10``."""
    return tuple((0, int(t), t) if t.isdecimal() else (1, 0, t) for t in re.split(r"(\d+)", name) if t)


def list_files(root: Path, known: Collection[Identity] = ()) -> tuple[list[RunFile], list[SkippedFile]]:
    """List the Parquet files of the run directory ``root``, in numeric-aware order of their names.

    Where ``root/rollouts`` holds any, only that folder is taken; otherwise everything below ``root`` except
    ``metrics/``. Hidden names (``.x``, ``_x``) are not part of a run; a writer's unfinished files are
    reported. Links are followed only inside ``root``; a file reached twice is taken once.

    Parameters
    ----------
    known : collection of (name, size, mtime_ns)
        Files whose footer has been read before, in order: they are not opened.
    """
    outside: list[SkippedFile] = []
    for top in (root / ROLLOUTS, root):
        if not is_remote(top) and not (top.is_dir() and is_inside(top, os.path.realpath(root), outside)):
            continue
        skipped: list[SkippedFile] = []
        files: list[RunFile] = []
        seen: dict[str, str] = {}
        for found in _in_order(walk(top, root, skipped), known):
            checked = _check(found, root, known)
            if isinstance(checked, SkippedFile):
                skipped.append(checked)
            elif found.real in seen:
                skipped.append(SkippedFile(root / found.name, f"same file as {seen[found.real]}"))
            else:
                seen[found.real] = checked.name
                files.append(checked)
        if files or skipped:
            return files, skipped
    return [], outside


def _in_order(found: Iterable[Found], known: Collection[Identity]) -> list[Found]:
    place = {name: at for at, (name, _, _) in enumerate(known)}
    every = list(found)
    if place and all(each.name in place for each in every):
        return sorted(every, key=lambda each: place[each.name])
    return sorted(every, key=lambda each: numeric_order(each.name))


def check_file(path: Path, name: str) -> RunFile | SkippedFile:
    """Check that ``path`` is a finished Parquet file, by its size and the magic at both ends.

    A writer puts the footer last: a file that starts right and has no footer is still being written, or
    its writer was killed.
    """
    try:
        if not is_remote(path) and not stat.S_ISREG(path.stat().st_mode):
            # Not opened before this is known: opening a pipe would wait for its writer.
            return SkippedFile(path, "not a regular file")
        size, version = state_of(path)
    except FileNotFoundError:
        return SkippedFile(path, "dangling link" if is_link(path) else "removed while the run was opened")
    except OSError as error:
        return SkippedFile(path, f"unreadable: {error.strerror or error}")
    return _check(Found(name, "", size, version), path.parents[name.count("/")], ())


def _check(found: Found, root: Path, known: Collection[Identity]) -> RunFile | SkippedFile:
    file = RunFile(root, found.name, found.size, found.version)
    if not found.problem and file.identity in known:
        return file
    # In storage each look is a request: there the footer is read at once, and a bad one explained.
    reason = found.problem or (_too_short(file.size) if is_remote(root) else why_not_parquet(file))
    return SkippedFile(file.path, reason) if reason else file


def why_not_parquet(file: RunFile) -> str:
    """Say why a file is no finished Parquet file, by the magic at both its ends; empty where it is one."""
    path = file.path
    try:
        head, tail = _both_ends(path)
        changed = state_of(path) != (file.size, file.mtime_ns)
    except FileNotFoundError:
        return "dangling link" if is_link(path) else "removed while the run was opened"
    except OSError as error:
        return f"unreadable: {error.strerror or error}"
    if file.size == 0:
        return "empty"
    if head != _MAGIC[: len(head)]:
        return "encrypted Parquet" if head == b"PARE" else "not Parquet"
    return "being written" if changed or file.size < _SMALLEST or tail != _MAGIC else ""


def _too_short(size: int) -> str:
    return "" if size >= _SMALLEST else "being written" if size else "empty"


def state_of(path: Path) -> tuple[int, int]:
    """Size and mtime_ns, or version, of a file as they are now.

    Raises
    ------
    OSError
        It is not there, or cannot be looked at.
    """
    if not is_remote(path):
        now = path.stat()
        return now.st_size, now.st_mtime_ns
    system, name = store_of(path)
    info = system.info(name)
    return int(info["size"] or 0), object_version(info)


def _both_ends(path: Path) -> tuple[bytes, bytes]:
    with open_binary(path) if is_remote(path) else path.open("rb") as file:
        head = file.read(len(_MAGIC))
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(_MAGIC)))
        return head, file.read(len(_MAGIC))


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Some file systems refuse to sync a directory; the rename itself is then all there is.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
