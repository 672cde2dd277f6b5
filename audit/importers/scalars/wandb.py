"""Weights & Biases on this machine: the history of the newest run under ``wandb/``, else its last values.

The history is ``files/wandb-history.jsonl`` of old clients, ``run-*.wandb`` of those of these years; a run
whose folder was cleaned up has ``files/wandb-summary.json``, the last value of every metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.importers.configs import read_config
from audit.importers.interface import Scalar
from audit.importers.logged import logged
from audit.importers.scalars.lines import flat, read_lines
from audit.importers.scalars.wandb_binary import histories

STEPS = ("train/global_step", "trainer/global_step", "training/global_step", "global_step", "_step", "step")
"""The trainer's own step before the number of calls to ``wandb.log``."""
_HISTORY, _SUMMARY = "wandb-history.jsonl", "wandb-summary.json"


def find(folder: Path) -> list[Path]:
    """Return the history of the newest run, else its summary."""
    runs = _runs(folder)
    for pattern in (f"files/{_HISTORY}", "run-*.wandb", f"files/{_SUMMARY}"):
        files = [file for run in runs for file in run.glob(pattern) if file.is_file()]
        if files:
            return files[-1:]
    return []


def read(files: list[Path], notes: list[str]) -> Iterator[Scalar]:
    """Yield what it holds.

    Raises
    ------
    BadLog
        The file is not what its name says.
    """
    file = files[0]
    run = file.parent if file.suffix == ".wandb" else file.parent.parent
    if run.parent.name == "wandb" and len(_runs(run.parent)) > 1:
        notes.append(f"W&B kept several runs here: the newest, {run.name}, was taken")
    if file.name == _HISTORY:
        yield from read_lines(file, notes, STEPS)
        return
    if file.suffix == ".wandb":
        for entry in histories(file):
            yield from _entry(entry)
        return
    notes.append("W&B kept no history on this machine: of its scalars only the last values are known")
    yield from _entry(dict(flat(read_config(file))))


def _entry(entry: dict[str, Any]) -> Iterator[Scalar]:
    step = next((entry[name] for name in STEPS if entry.get(name) is not None), None)
    yield from logged(step, dict(flat(entry)), skip=frozenset(STEPS))


def _runs(folder: Path) -> list[Path]:
    """Folders of the runs under a folder, oldest first; their names begin with the time."""
    own = [folder] if (folder / "files").is_dir() or any(folder.glob("run-*.wandb")) else []
    found = [*folder.glob("wandb/*run-*"), *folder.glob("*run-*"), *own]
    return sorted((run for run in found if run.is_dir()), key=lambda run: run.name.removeprefix("offline-"))
