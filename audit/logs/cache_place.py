"""Where what was computed from a log is kept: beside the log, or in the user's cache directory.

``RLAUDIT_CACHE=user`` keeps everything in the user's cache directory, ``off`` keeps nothing;
``RLAUDIT_CACHE_DIR`` names another directory for the user's cache.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

import msgspec

from audit.errors import AuditError, UnknownName

NAME = ".rlaudit"
"""Folder inside a run. Hidden names are no part of a log."""
OWNER = "about.json"
RUNS = "runs"
_CHOICES = ("", "run", "user", "off")


class Owner(msgspec.Struct, frozen=True):
    """Which log a folder of the user's cache belongs to."""

    path: str
    schema: str = "rlaudit.cache.v1"


def cache_place(path: str | Path) -> Path | None:
    """Return the folder that keeps what was computed from the log at ``path``; it need not exist yet.

    ``<run>/.rlaudit`` where the run is a directory of this machine that can be written to. Else, for a log
    that is read-only, remote, or a single file among others, a folder of the user's cache directory.

    Returns
    -------
    Path or None
        None where ``RLAUDIT_CACHE`` is ``off``.

    Raises
    ------
    UnknownName
        ``RLAUDIT_CACHE`` is none of ``run``, ``user``, ``off``.
    """
    choice = os.environ.get("RLAUDIT_CACHE", "").strip().lower()
    if choice not in _CHOICES:
        raise UnknownName.of("value of RLAUDIT_CACHE", choice, _CHOICES[1:])
    if choice == "off":
        return None
    if choice != "user" and not is_address(path):
        beside = Path(path) / NAME
        if _may_write(beside):
            return beside
    return user_place(path)


def user_place(path: str | Path) -> Path:
    """Return the folder of the user's cache directory for the log at ``path``."""
    named = blake2b(subject(path).encode("utf-8", "surrogateescape"), digest_size=16)
    return user_cache() / RUNS / named.hexdigest()


def user_cache() -> Path:
    """Return the user's cache directory for this program; it need not exist.

    Raises
    ------
    AuditError
        ``RLAUDIT_CACHE_DIR`` begins with ``~`` and names a user who is not known.
    """
    chosen = os.environ.get("RLAUDIT_CACHE_DIR")
    if chosen:
        try:
            return Path(chosen).expanduser()
        except RuntimeError:
            msg = (
                f"RLAUDIT_CACHE_DIR={chosen}: there is no home directory of that user. Write the whole path."
            )
            raise AuditError(msg) from None
    from platformdirs import user_cache_path

    return user_cache_path("rlaudit", appauthor=False)


def subject(path: str | Path) -> str:
    """Return what names a log on this machine: its address if it is remote, else its absolute path."""
    return str(path) if is_address(path) else os.path.realpath(path)


def is_address(path: str | Path) -> bool:
    """Tell whether a log is in object storage (``s3://bucket/run``) and not on this machine."""
    return "://" in str(path)


def claim(place: Path, path: str | Path) -> None:
    """Create the folder; in the user's cache, note there which log it belongs to.

    Raises
    ------
    OSError
        It cannot be created or written to.
    """
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        place.mkdir(exist_ok=True)
    else:
        if place.name == NAME:
            # Logs may be under version control; what is computed from them should not be.
            (place / ".gitignore").write_text("*\n")
    owner = place / OWNER
    if place.name != NAME and not owner.exists():
        # A path may hold bytes that are no UTF-8; they are kept as escapes.
        text = subject(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        temporary = owner.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(msgspec.json.encode(Owner(text)))
        temporary.replace(owner)


def owner_of(place: Path) -> str | None:
    """Return the path or address of the log that a folder belongs to, or None where it does not say."""
    if place.name == NAME:
        return str(place.parent)
    try:
        return msgspec.json.decode((place / OWNER).read_bytes(), type=Owner).path
    except (OSError, msgspec.MsgspecError):
        return None


def _may_write(place: Path) -> bool:
    # A link could lead anywhere: a log from somebody else must not choose where this program writes.
    if place.is_symlink() or not place.parent.is_dir():
        return False
    return os.access(place if place.exists() else place.parent, os.W_OK | os.X_OK)
