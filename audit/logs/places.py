"""Where logs are: paths of this machine, or object storage behind the same pathlib interface.

``s3://bucket/runs`` becomes a ``UPath`` of universal_pathlib, which answers what a ``Path`` answers and is no
subclass of it; everything here takes both. Only this file knows schemes, packages and time-outs.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

from audit.errors import AuditError, BadLog, closest

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/+)(.*)", re.DOTALL)
_STORES = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gcs"),
    "gcs": ("gcsfs", "gcs"),
    "az": ("adlfs", "azure"),
    "abfs": ("adlfs", "azure"),
    "abfss": ("adlfs", "azure"),
    "memory": ("fsspec", ""),
}
"""Scheme → package that reads it, and the extra that installs the package."""

ANSWER_WITHIN = 30.0
"""Seconds in which storage must answer the first question; later ones have the time-outs of its client."""
_CONNECT, _READ, _RETRIES = 5, 30, 2

_T = TypeVar("_T")


class Unreachable(BadLog):
    """Object storage did not answer; the same question may be answered later."""


def to_place(text: str | Path) -> Path:
    """Return the path that ``text`` names: a local one, or one of object storage.

    Parameters
    ----------
    text : str or Path
        A local path, ``file://``, ``s3://``, ``gs://``, ``az://``, ``abfs://`` or ``memory://``.

    Returns
    -------
    Path
        For object storage a ``UPath``. Nothing is asked of the storage yet.

    Raises
    ------
    AuditError
        The scheme is not known, or the package that reads it is not installed.
    """
    found = _URL.fullmatch(text) if isinstance(text, str) else None
    if found is None or os.path.lexists(text):
        return Path(text) if isinstance(text, str) else text
    scheme, slashes, rest = found[1].lower(), found[2], found[3]
    if scheme == "file" and len(slashes) >= 2:
        return Path(slashes[2:] + rest)
    if len(slashes) < 2:
        if scheme in _STORES:
            msg = f"{text}: no such file or directory. Did you mean '{scheme}://{rest}'?"
            raise AuditError(msg)
        return Path(text)
    if not rest.strip("/"):
        msg = f"{text}: names no bucket; expected {scheme}://BUCKET/PATH."
        raise AuditError(msg)
    if scheme not in _STORES:
        known = [f"{name}://" for name in _STORES]
        near = closest(f"{scheme}://", known, limit=1)
        msg = f"{text}: unknown storage '{scheme}://'.{near} Known: {', '.join(known)}."
        raise AuditError(msg)
    return _remote(scheme, f"{scheme}://{rest}")


def _remote(scheme: str, url: str) -> Path:
    package, extra = _STORES[scheme]
    if find_spec(package) is None:
        msg = (
            f"{url}: reading it needs the package {package}; install it with: pip install 'rlaudit[{extra}]'"
        )
        raise AuditError(msg)
    from upath import UPath

    for each in ("fsspec", package, "azure"):
        # Without any handler, Python prints what a client warns of, in many lines.
        logging.getLogger(each).addHandler(logging.NullHandler())
    # A listing kept in memory would hide that a file was changed.
    options: dict[str, Any] = {"use_listings_cache": False}
    if package == "s3fs":
        options["config_kwargs"] = {
            "connect_timeout": _CONNECT,
            "read_timeout": _READ,
            "retries": {"max_attempts": _RETRIES, "mode": "standard"},
        }
    elif package == "adlfs":
        options |= {"connection_timeout": _CONNECT, "read_timeout": _READ}
    try:
        place = UPath(url, **options)
    except (ValueError, OSError) as error:
        msg = f"{url}: cannot be read as an address: {_first_line(error)}"
        raise AuditError(msg) from None
    return cast("Path", place)


def is_remote(path: Path) -> bool:
    """Tell whether the path is one of object storage."""
    return not isinstance(path, Path)


def store_of(path: Path) -> tuple[Any, str]:
    """Return the fsspec file system of a remote path, and the path's name in it."""
    place = cast("Any", path)
    system = place.fs
    if getattr(system, "retries", 0) > _RETRIES:
        system.retries = _RETRIES
    return system, str(place.path).rstrip("/")


def name_of(path: Path) -> str:
    """Return the last part of the path, links resolved; of a whole bucket its name."""
    if is_remote(path):
        return path.name or store_of(path)[1].rsplit("/", 1)[-1]
    return path.resolve().name


def real_path(path: Path) -> str:
    """Return one text for every path that leads to the same file."""
    return str(path) if is_remote(path) else os.path.realpath(path)


def is_link(path: Path) -> bool:
    """Tell whether the path is a symbolic link; object storage has none."""
    return not is_remote(path) and path.is_symlink()


def open_binary(path: Path) -> Any:
    """Open a file of object storage for reads of exact ranges: no read-ahead, no copy on disk."""
    system, name = store_of(path)
    return system.open(name, "rb", cache_type="none")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what a storage client raises into one clear error; local errors of the system pass as they are.

    Raises
    ------
    BadLog
        The storage cannot be reached, refuses, or does not have what was asked for. Or a name is no UTF-8,
        which Arrow and DuckDB cannot open.
    """
    try:
        yield
    except AuditError:
        raise
    except UnicodeEncodeError as error:
        msg = f"{error.object}: a name that is not valid UTF-8 cannot be read. Rename it."
        raise BadLog(msg) from None
    except Exception as error:
        if not is_remote(path):
            raise
        raise storage_error(path, error) from None


def storage_error(path: Path, error: Exception) -> BadLog:
    """Return the clear error for what a storage client raised: one line, what it means and what to do."""
    why, again = _meaning(error)
    return (Unreachable if again else BadLog)(f"{path}: {why}")


def _meaning(error: Exception) -> tuple[str, bool]:
    """What an error means, and whether the same question may be answered later."""
    kinds = {kind.__name__.lower() for each in _causes(error) for kind in type(each).__mro__}
    named = " ".join(kinds)
    if "credential" in named or "credential" in str(error).lower():
        return (
            "no credentials for this storage. Set those of its own client (AWS_ACCESS_KEY_ID, AWS_PROFILE, "
            "GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_CONNECTION_STRING), or FSSPEC_S3_ANON=true for a "
            "public bucket."
        ), False
    if "filenotfounderror" in kinds:
        return "no such file, directory or bucket.", False
    if "permissionerror" in kinds:
        return f"access denied: {_first_line(error)}", False
    if any(word in named for word in ("timeout", "connect", "clienterror")):
        return f"the storage cannot be reached: {_first_line(error)}", True
    return f"cannot be read: {_first_line(error)}", False


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def is_directory(path: Path) -> bool:
    """Tell whether the path is a directory, or has something below it.

    Raises
    ------
    BadLog
        The storage cannot be reached, or refuses.
    """
    return answer(path, path.is_dir)


def answer(path: Path, question: Callable[[], _T]) -> _T:
    """Ask storage something that must be answered within :data:`ANSWER_WITHIN` seconds.

    Raises
    ------
    BadLog
        No answer came in time, or the storage refuses.
    """
    if not is_remote(path):
        return question()
    given: list[_T] = []
    failed: list[Exception] = []

    def ask() -> None:
        try:
            given.append(question())
        except Exception as error:
            failed.append(error)

    # Some clients try for minutes, and none of them can be told a total.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(ANSWER_WITHIN)
    with readable(path):
        if failed:
            raise failed[0]
        if not given:
            msg = f"no answer within {ANSWER_WITHIN:g} seconds"
            raise TimeoutError(msg)
    return given[0]
