"""Transformers' ``trainer_state.json``: ``log_history``, a list of objects with ``step``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from audit.importers.configs import read_config
from audit.importers.interface import Scalar
from audit.importers.logged import logged
from audit.logs.files import numeric_order

_NAME = "trainer_state.json"


def find(folder: Path) -> list[Path]:
    """Return the newest: that of the output directory, else of the last checkpoint."""
    if (folder / _NAME).is_file():
        return [folder / _NAME]
    states = sorted(folder.glob(f"checkpoint-*/{_NAME}"), key=lambda file: numeric_order(file.as_posix()))
    return states[-1:]


def read(files: list[Path], notes: list[str]) -> Iterator[Scalar]:
    """Yield what it holds.

    Raises
    ------
    BadLog
        It is not JSON.
    """
    del notes
    history = read_config(files[0]).get("log_history")
    for entry in history if isinstance(history, list) else []:
        if isinstance(entry, dict):
            yield from logged(entry.get("step"), entry)
