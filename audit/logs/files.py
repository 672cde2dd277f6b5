"""Which Parquet files under a run may be read, and why the others may not.

Files are listed here and handed on as an explicit list, never as a pattern: a pattern follows bracket and
partition syntax in names, misses linked folders, and one half-written file fails the whole query.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

SUFFIX = ".parquet"
ROLLOUTS = "rollouts"
_MAGIC = b"PAR1"
_SMALLEST = 12
"""Magic, footer length, magic: nothing shorter can be Parquet."""

_NOT_ROLLOUTS = frozenset({"metrics"})
_PARTIAL = re.compile(r"\.parquet\.(tmp|part|partial|inprogress|crswap)([-.].*)?$", re.IGNORECASE)


class RunFile(msgspec.Struct, frozen=True):
    """A readable Parquet file of a run, as it was when the run was opened."""

    path: Path
    name: str
    """Path relative to the run, with forward slashes."""
    size: int
    """Bytes."""
    mtime_ns: int

    @property
    def fingerprint(self) -> tuple[str, int, int]:
        """(path, size, mtime_ns): equal as long as the file has not been written to."""
        return (str(self.path), self.size, self.mtime_ns)

    def unchanged(self) -> bool:
        """Tell whether the file on disk is still the one that was opened."""
        try:
            now = self.path.stat()
        except OSError:
            return False
        return (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns)


class SkippedFile(msgspec.Struct, frozen=True):
    """A file or folder that looks like part of the run and is not read."""

    path: Path
    reason: str
    """``empty``, ``being written``, ``not Parquet``, ``damaged footer``, ``link leads outside the run``, …"""


def is_parquet_name(name: str) -> bool:
    """Tell whether a file of this name is meant to be read: ``*.parquet``, and not hidden."""
    return name.lower().endswith(SUFFIX) and not name.startswith((".", "_"))


def numeric_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``step2`` comes before ``step10``."""
    return tuple((0, int(t), t) if t.isdecimal() else (1, 0, t) for t in re.split(r"(\d+)", name) if t)


def list_files(root: Path) -> tuple[list[RunFile], list[SkippedFile]]:
    """List the Parquet files of the run directory ``root``, in numeric-aware order of their names.

    Where ``root/rollouts`` holds any, only that folder is taken; otherwise everything below ``root`` except
    ``metrics/``. Hidden names (``.x``, ``_x``) are not part of a run; a writer's unfinished files are
    reported. Links are followed only inside ``root``; a file reached twice is taken once.
    """
    outside: list[SkippedFile] = []
    for top in (root / ROLLOUTS, root):
        if not top.is_dir() or not _is_inside(top, os.path.realpath(root), outside):
            continue
        skipped: list[SkippedFile] = []
        paths = sorted(_walk(top, root, skipped), key=lambda p: numeric_order(p.relative_to(root).as_posix()))
        files: list[RunFile] = []
        seen: dict[str, str] = {}
        for path in paths:
            checked = check_file(path, path.relative_to(root).as_posix())
            real = os.path.realpath(path)
            if isinstance(checked, SkippedFile):
                skipped.append(checked)
            elif real in seen:
                skipped.append(SkippedFile(path, f"same file as {seen[real]}"))
            else:
                seen[real] = checked.name
                files.append(checked)
        if files or skipped:
            return files, skipped
    return [], outside


def check_file(path: Path, name: str) -> RunFile | SkippedFile:
    """Check that ``path`` is a finished Parquet file, by its size and the magic at both ends.

    A writer puts the footer last: a file that starts right and has no footer is still being written, or
    its writer was killed.
    """
    try:
        before = path.stat()
        # Not opened before this is known: opening a pipe would wait for its writer.
        if not stat.S_ISREG(before.st_mode):
            return SkippedFile(path, "not a regular file")
        head, tail = _both_ends(path)
        after = path.stat()
    except FileNotFoundError:
        return SkippedFile(path, "dangling link" if path.is_symlink() else "removed while the run was opened")
    except OSError as error:
        return SkippedFile(path, f"unreadable: {error.strerror or error}")
    changed = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
    reason = _why_not(before.st_size, head, tail, changed=changed)
    return SkippedFile(path, reason) if reason else RunFile(path, name, before.st_size, before.st_mtime_ns)


def _both_ends(path: Path) -> tuple[bytes, bytes]:
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(_MAGIC)))
        return head, file.read(len(_MAGIC))


def _why_not(size: int, head: bytes, tail: bytes, *, changed: bool) -> str:
    if size == 0:
        return "empty"
    if head != _MAGIC[: len(head)]:
        return "encrypted Parquet" if head == b"PARE" else "not Parquet"
    return "being written" if changed or size < _SMALLEST or tail != _MAGIC else ""


def _walk(top: Path, root: Path, skipped: list[SkippedFile]) -> Iterator[Path]:
    inside = os.path.realpath(root)
    visited: set[str] = set()

    def unreadable(error: OSError) -> None:
        skipped.append(SkippedFile(Path(error.filename), f"unreadable: {error.strerror}"))

    for folder, subfolders, names in os.walk(top, onerror=unreadable, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:
            subfolders.clear()
            continue
        visited.add(real)
        here = Path(folder)
        subfolders.sort()
        for sub in list(subfolders):
            hidden = sub.startswith((".", "_")) or (here == root and sub in _NOT_ROLLOUTS)
            if hidden or not _is_inside(here / sub, inside, skipped):
                subfolders.remove(sub)
        for name in sorted(names):
            path = here / name
            if _PARTIAL.search(name):
                skipped.append(SkippedFile(path, "being written"))
            elif is_parquet_name(name) and _is_inside(path, inside, skipped):
                yield path


def _is_inside(path: Path, inside: str, skipped: list[SkippedFile]) -> bool:
    if not path.is_symlink():
        return True
    real = os.path.realpath(path)
    if os.path.commonpath([inside, real]) == inside:
        return True
    skipped.append(SkippedFile(path, "link leads outside the run"))
    return False


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Some file systems refuse to sync a directory; the rename itself is then all there is.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
