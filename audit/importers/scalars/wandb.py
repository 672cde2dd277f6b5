"""Weights & Biases on this machine: ``wandb/run-*/files/wandb-history.jsonl``, else the last values.

Clients of these years write ``wandb-history.jsonl`` no more: an offline run is a binary ``run-*.wandb``, of
which ``wandb sync`` or an export of the history makes something to read; ``wandb-summary.json`` has the last
value of every metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from audit.importers.configs import read_config
from audit.importers.interface import Scalar
from audit.importers.logged import logged
from audit.importers.scalars.lines import flat, read_lines

STEPS = ("train/global_step", "trainer/global_step", "training/global_step", "global_step", "_step", "step")
"""The trainer's own step before the number of calls to ``wandb.log``."""
_HISTORY, _SUMMARY = "wandb-history.jsonl", "wandb-summary.json"


def find(folder: Path) -> list[Path]:
    """Return the history of the newest run, else its summary."""
    runs = _runs(folder)
    for name in (_HISTORY, _SUMMARY):
        files = [run / name for run in runs if (run / name).is_file()]
        if files:
            return files[-1:]
    return []


def read(files: list[Path], notes: list[str]) -> Iterator[Scalar]:
    """Yield what it holds.

    Raises
    ------
    BadLog
        The summary is not JSON.
    """
    file = files[0]
    top = file.parent.parent.parent
    if top.name == "wandb" and len(_runs(top.parent)) > 1:
        notes.append(f"W&B kept several runs here: the newest, {file.parent.parent.name}, was taken")
    if file.name == _HISTORY:
        yield from read_lines(file, notes, STEPS)
        return
    entry = read_config(file)
    step = next((entry[name] for name in STEPS if entry.get(name) is not None), None)
    notes.append("W&B kept no history on this machine: of its scalars only the last values are known")
    yield from logged(step, dict(flat(entry)), skip=frozenset(STEPS))


def _runs(folder: Path) -> list[Path]:
    """``files`` folders of the runs under a folder, oldest first; their names begin with the time."""
    if folder.name == "files" and ((folder / _HISTORY).is_file() or (folder / _SUMMARY).is_file()):
        return [folder]
    found = [*folder.glob("wandb/*run-*/files"), *folder.glob("*run-*/files"), *folder.glob("files")]
    return sorted(
        (each for each in found if each.is_dir()), key=lambda each: each.parent.name.removeprefix("offline-")
    )
