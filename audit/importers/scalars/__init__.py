"""What a trainer logged as scalars beside its rollouts: found near the log, one file here per format.

Looked for in the log's own folder and, where the log is a folder, in the one that it lies in; the first
format that is there is taken. A format's own importer may know a better place (``Importer.scalars``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from audit.errors import BadLog
from audit.importers.interface import Scalar
from audit.importers.scalars import metrics_jsonl, tensorboard, trackio, trainer_state, verl_file, wandb
from audit.logs.places import is_remote

FORMATS: tuple[ModuleType, ...] = (trainer_state, metrics_jsonl, verl_file, wandb, trackio, tensorboard)
"""Each has ``find(folder) -> files`` and ``read(files, notes) -> scalars``; the surest first."""


class Near(NamedTuple):
    """Files of scalars near a log."""

    format: ModuleType
    files: list[Path]

    def read(self, notes: list[str]) -> Iterator[Scalar]:
        """Yield their scalars; what cannot be read is noted."""
        try:
            yield from self.format.read(self.files, notes)
        except BadLog as error:
            notes.append(f"scalars not read: {error}")
        except OSError as error:
            notes.append(f"scalars not read: {error.filename or self.files[0]}: {error.strerror or error}")


def near(path: Path) -> Near | None:
    """Find the files of scalars that belong to the log at ``path``; None where there are none.

    In object storage nothing is looked for: each look is a request, and some readers take local files alone.
    """
    if is_remote(path):
        return None
    places = [path, path.parent] if path.is_dir() else [path.parent]
    for place in places:
        for each in FORMATS:
            try:
                files = [file for file in each.find(place) if file != path]
            except OSError:
                continue
            if files:
                return Near(each, files)
    return None
