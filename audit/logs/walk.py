"""What lies below a run directory, by one listing: names, sizes, times; links and hidden names sorted out."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from audit.logs.places import is_link, is_remote, readable, real_path, store_of

SUFFIX = ".parquet"
_NOT_ROLLOUTS = frozenset({"metrics"})
_PARTIAL = re.compile(r"\.parquet\.(tmp|part|partial|inprogress|crswap)([-.].*)?$", re.IGNORECASE)
_VERSIONS = (
    ("ETag", "etag", "generation"),
    ("LastModified", "last_modified", "mtime", "updated", "created"),
)


class SkippedFile(msgspec.Struct, frozen=True):
    """A file or folder that looks like part of the run and is not read."""

    path: Path
    reason: str
    """``empty``, ``being written``, ``not Parquet``, ``damaged footer``, ``link leads outside the run``, …"""


class Found(NamedTuple):
    """A file with the name of a Parquet file, as the listing shows it."""

    name: str
    """Path relative to the run, with forward slashes."""
    real: str
    """Equal for two names of one file."""
    size: int
    version: int
    """mtime_ns, or of an object :func:`object_version`."""
    problem: str = ""
    """Why it cannot even be opened."""


def is_parquet_name(name: str) -> bool:
    """Tell whether a file of this name is meant to be read: ``*.parquet``, and not hidden."""
    return name.lower().endswith(SUFFIX) and not name.startswith((".", "_"))


def object_version(info: Mapping[str, Any]) -> int:
    """Return a number that changes when an object is written again: of its ETag, else of its times."""
    for names in _VERSIONS:
        values = [_plain(info[name]) for name in names if info.get(name)]
        if values:
            break
    else:
        values = []
    digest = hashlib.blake2b("|".join(values).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _plain(value: Any) -> str:
    """The same text for the two forms in which a client gives a listing and a single object."""
    return str(value.timestamp()) if isinstance(value, datetime) else str(value).strip('"')


def walk(top: Path, root: Path, skipped: list[SkippedFile]) -> Iterator[Found]:
    """Yield the Parquet files below ``top``, a folder of the run directory ``root``.

    Hidden names and ``root/metrics`` are passed over; links are followed inside ``root`` only; what is left
    out for another reason is added to ``skipped``.
    """
    if is_remote(top):
        with readable(top):
            yield from _remote(top, root, skipped)
        return
    prefix = "" if top == root else top.relative_to(root).as_posix() + "/"
    yield from _Local(os.path.realpath(root), skipped).walk(str(top), prefix, os.path.realpath(top))


def walk_folders(top: Path, *, followlinks: bool = False) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk down as os.walk does: folder, names of its folders (which the caller may prune), its files."""
    if not is_remote(top):
        for folder, subfolders, names in os.walk(top, followlinks=followlinks):
            yield Path(folder), subfolders, names
        return
    system, name = store_of(top)
    try:
        listed = system.ls(name, detail=True)
    except FileNotFoundError:
        return
    last = {
        info["name"].rstrip("/").rsplit("/", 1)[-1]: info["type"] for info in listed if info["name"] != name
    }
    subfolders = [each for each, kind in last.items() if kind == "directory"]
    yield top, subfolders, [each for each, kind in last.items() if kind == "file"]
    for each in subfolders:
        yield from walk_folders(top / each)


def is_inside(path: Path, inside: str, skipped: list[SkippedFile]) -> bool:
    """Tell whether the path, links resolved, lies in ``inside``; else say so in ``skipped``."""
    return not is_link(path) or _leads_inside(path, real_path(path), inside, skipped)


def _leads_inside(path: Path, real: str, inside: str, skipped: list[SkippedFile]) -> bool:
    if os.path.commonpath([inside, real]) == inside:
        return True
    skipped.append(SkippedFile(path, "link leads outside the run"))
    return False


class _Local:
    """A walk over folders of this machine that asks the disk once per name."""

    def __init__(self, inside: str, skipped: list[SkippedFile]) -> None:
        self._inside, self._skipped = inside, skipped
        self._visited: set[str] = set()

    def walk(self, folder: str, prefix: str, real: str) -> Iterator[Found]:
        """Yield the files below ``folder``, whose name in the run is ``prefix``, links resolved ``real``."""
        if real in self._visited:
            return
        self._visited.add(real)
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self._skipped.append(SkippedFile(Path(folder), f"unreadable: {error.strerror}"))
            return
        below = []
        for entry in entries:
            name = entry.name
            if _is_folder(entry):
                if not name.startswith((".", "_")) and (prefix or name not in _NOT_ROLLOUTS):
                    below.append(entry)
            elif _PARTIAL.search(name):
                self._skipped.append(SkippedFile(Path(entry.path), "being written"))
            elif is_parquet_name(name) and (target := self._target(entry, real)):
                yield _found(entry, prefix + name, target)
        for entry in below:
            if target := self._target(entry, real):
                yield from self.walk(entry.path, f"{prefix}{entry.name}/", target)

    def _target(self, entry: os.DirEntry[str], real: str) -> str:
        """Where the name leads, links resolved; empty where that is outside of the run."""
        # Resolving every name would cost more than all the rest: only links lead elsewhere.
        if not entry.is_symlink():
            return f"{real}/{entry.name}"
        target, path = os.path.realpath(entry.path), Path(entry.path)
        return target if _leads_inside(path, target, self._inside, self._skipped) else ""


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _found(entry: os.DirEntry[str], name: str, real: str) -> Found:
    try:
        now = entry.stat()
    except FileNotFoundError:
        problem = "dangling link" if entry.is_symlink() else "removed while the run was opened"
    except OSError as error:
        problem = f"unreadable: {error.strerror or error}"
    else:
        # Not opened before this is known: opening a pipe would wait for its writer.
        problem = "" if stat.S_ISREG(now.st_mode) else "not a regular file"
        return Found(name, real, now.st_size, now.st_mtime_ns, problem)
    return Found(name, real, 0, 0, problem)


def _remote(top: Path, root: Path, skipped: list[SkippedFile]) -> Iterator[Found]:
    system, start = store_of(top)
    _, base = store_of(root)
    # One flat listing: a thousand names a request, however many folders they lie in.
    for key, info in sorted(system.find(start, detail=True).items()):
        name = key.removeprefix(base).lstrip("/")
        *folders, last = name.split("/")
        if any(part.startswith((".", "_")) for part in folders):
            continue
        if folders and top == root and folders[0] in _NOT_ROLLOUTS:
            continue
        if _PARTIAL.search(last):
            skipped.append(SkippedFile(root / name, "being written"))
        elif is_parquet_name(last):
            yield Found(name, key, int(info["size"]), object_version(info))
