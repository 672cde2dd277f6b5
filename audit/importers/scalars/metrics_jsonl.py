"""``metrics.jsonl`` of prime-rl and tinker-cookbook, ``history.jsonl`` of ART: one object a step.

tinker-cookbook keeps what a resumed run cut off as ``metrics.jsonl.pre_resume_N``: not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from audit.importers.interface import Scalar
from audit.importers.jsonl import first_with
from audit.importers.scalars.lines import STEPS, read_lines

_NAMES = ("metrics.jsonl", "history.jsonl")


def find(folder: Path) -> list[Path]:
    """Return the first of the names that is there and has a step."""
    files = [folder / name for name in _NAMES if (folder / name).is_file()]
    return [file for file in files if first_with(file, lambda entry: any(s in entry for s in STEPS))][:1]


def read(files: list[Path], notes: list[str]) -> Iterator[Scalar]:
    """Yield what it holds."""
    yield from read_lines(files[0], notes)
