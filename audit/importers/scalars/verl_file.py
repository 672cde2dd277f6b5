"""verl's file logger (``trainer.logger=[file]``): ``{"step": 1, "data": {metric: value}}``, one line a step.

Read in verl 0.9.1, verl/utils/tracking.py ``FileLogger``: ``$VERL_FILE_LOGGER_PATH``, or
``{root}/{project}/{experiment}.jsonl``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Scalar
from audit.importers.jsonl import first_with, records
from audit.importers.logged import logged

_MOST = 64
"""Files of a folder that are looked into."""


def find(folder: Path) -> list[Path]:
    """Return the newest file that has this form."""
    found = [file for file in islice(sorted(folder.glob("*.jsonl")), _MOST) if first_with(file, _fits)]
    return sorted(found, key=lambda file: file.stat().st_mtime_ns)[-1:]


def read(files: list[Path], notes: list[str]) -> Iterator[Scalar]:
    """Yield what it holds."""
    book = Book()
    for entry in records(files[0], book):
        if _fits(entry):
            yield from logged(entry["step"], entry["data"])
        else:
            book.reject("no step and data")
    for reason, count in book.rejected.items():
        notes.append(f"{files[0].name}: {count} of its lines left out: {reason}")


def _fits(entry: Mapping[str, Any]) -> bool:
    return entry.keys() == {"step", "data"} and isinstance(entry["data"], Mapping)
