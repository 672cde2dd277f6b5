"""Which version of a framework was installed when a run ran, where a file near its log says so surely."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

FREEZES = (
    "wandb/latest-run/files/requirements.txt",
    "wandb/run-*/files/requirements.txt",
    "files/requirements.txt",
    "pip_freeze.txt",
    "pip-freeze.txt",
    "README.md",
)
"""Files that list what was installed when the run ran: of a README only a model card's. A requirements.txt
beside no W&B run lists what was wanted."""
_CARD = "Framework versions"
_INSTALLED = re.compile(r"^(?:- )?([\w.-]+)\s*(?:==|: )\s*([0-9][\w.+!-]*)\s*$", re.MULTILINE)
_LONGEST = 2**20
"""Characters of such a list."""
_MOST = 64
"""Files that one pattern may name; more are not looked at."""


def installed_near(places: Sequence[Path], packages: Sequence[str]) -> str | None:
    """Return the version of the first of some packages that the nearest list names; None where none does."""
    return next((version for place in places if (version := _frozen(place, packages))), None)


def matching(place: Path, pattern: str) -> Iterator[Path]:
    """Yield the files that a pattern names at a place, sorted."""
    try:
        found = [place / pattern] if "*" not in pattern else sorted(place.glob(pattern))[:_MOST]
        yield from (file for file in found if file.is_file())
    except OSError:
        return


def _frozen(place: Path, packages: Sequence[str]) -> str | None:
    """The version in a list of installed packages; None where lists disagree."""
    wanted = {_plain(package) for package in packages}
    versions: set[str] = set()
    for pattern in FREEZES:
        for file in matching(place, pattern):
            try:
                with file.open(encoding="utf-8", errors="replace") as opened:
                    text = opened.read(_LONGEST)
            except OSError:
                continue
            if file.suffix == ".md" and _CARD not in text:
                continue
            versions |= {
                version for package, version in _INSTALLED.findall(text) if _plain(package) in wanted
            }
    return versions.pop() if len(versions) == 1 else None


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package.strip()).lower()
