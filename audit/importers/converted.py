"""Dumps that are pickles: never opened, read once a line of the user's has written them in a plain form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from audit.errors import BadLog
from audit.importers.interface import Unit


def converted_units(path: Path, files: Sequence[Path], plain: str, framework: str, recipe: str) -> list[Unit]:
    """Return one unit a file, converted or not.

    Parameters
    ----------
    files : sequence of Path
        Dumps, and what the recipe made of them.
    plain : str
        End of the name of a converted file.
    framework : str
        Whose dump it is, in words.
    recipe : str
        The line that converts every dump of a folder, where the framework is installed.

    Raises
    ------
    BadLog
        None is converted; says how.
    """
    if not any(file.name.endswith(plain) for file in files):
        msg = (
            f"{path}: a dump of {framework} is a pickle and is not opened. In this folder, where {framework} "
            f"is installed, run: {recipe}"
        )
        raise BadLog(msg)
    return [Unit(file.name.removesuffix(plain), (file,)) for file in files]
