"""The tables of options beside the dialects: how they are read, and what held at a version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from audit.errors import BadObjective

_NUMBER = re.compile(
    r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?"
    r"(?:\.\d{1,9})*"
    r"(?:(?:a|b|c|rc|alpha|beta|dev|post|pre)\d*)?(?:[.+_-][A-Za-z0-9]+)*",
    re.ASCII,
)
"""A version number: up to three places that count, and what a release adds (1.2.0rc1, 1.2.0.dev0+cu121)."""

_COMMIT = re.compile(r"(?=.*\d)[0-9a-f]{7,40}|main|master|dev|nightly|HEAD")


@cache
def table(name: str) -> dict[str, Any]:
    """Return ``<name>.json``; shared by all callers, not to be changed."""
    text = files("audit.objectives.dialects").joinpath(f"{name}.json").read_bytes()
    read: dict[str, Any] = msgspec.json.decode(text)
    return read


def defaults_at(
    entries: Sequence[Mapping[str, Any]], version: str, *, framework: str, what: str
) -> dict[str, Any]:
    """Return the defaults that held at a version.

    Parameters
    ----------
    entries
        The full set at the oldest version, then what each later one ``set`` and ``removed``.
    version : str
        The version asked for.
    framework, what : str
        Whose version it is, and what was tabled, for messages.

    Raises
    ------
    BadObjective
        The version is not a version number, or older than those read.
    """
    asked = version_number(version, framework)
    oldest = entries[0]["version"]
    if asked < version_number(oldest):
        raise BadObjective(f"{framework} {version}: {what} is known from {oldest} on.")
    full: dict[str, Any] = {}
    for entry in entries:
        if version_number(entry["version"]) > asked:
            break
        full.update(entry["set"])
        for key in entry.get("removed", ()):
            full.pop(key, None)
    return full


def is_version(version: str, *, commits: bool) -> bool:
    """Whether this is a version number or, with ``commits``, a commit or the branch that is worked on."""
    return bool(_NUMBER.fullmatch(version) or (commits and _COMMIT.fullmatch(version)))


def version_number(version: str, framework: str = "TRL") -> tuple[int, int, int]:
    """Return (major, minor, micro) of a version such as "1.16.0" or "1.10.0.dev0".

    Raises
    ------
    BadObjective
        It is none.
    """
    match = _NUMBER.fullmatch(version)
    if match is None:
        raise BadObjective(f"{framework} version {version!r} is not a version number.")
    major, minor, micro = (int(part or 0) for part in match.groups())
    return major, minor, micro
