"""Lines of JSON with a step and numbers, nested or not: what several trainers log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.importers.interface import Book, Scalar
from audit.importers.jsonl import records
from audit.importers.logged import logged

STEPS = ("step", "global_step", "training_step", "train_step", "_step", "iteration")
DEEPEST = 8


def flat(entry: Mapping[str, Any], above: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested objects, their names joined by ``/``."""
    for name, value in entry.items():
        if isinstance(value, Mapping) and depth < DEEPEST:
            yield from flat(value, f"{above}{name}/", depth + 1)
        else:
            yield f"{above}{name}", value


def read_lines(file: Path, notes: list[str], steps: Sequence[str] = STEPS) -> Iterator[Scalar]:
    """Yield the numbers of a file, each line under the first step that it has."""
    book, without = Book(), 0
    for entry in records(file, book):
        name = next((name for name in steps if entry.get(name) is not None), None)
        if name is None:
            without += 1
            continue
        yield from logged(entry[name], dict(flat(entry)), skip=frozenset(steps))
    for reason, count in book.rejected.items():
        notes.append(f"{file.name}: {count} of its lines left out: {reason}")
    if without:
        notes.append(f"{file.name}: {without} of its lines left out: no step")
