"""TensorBoard's event files, by TensorBoard's own reader; it needs no TensorFlow."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.errors import BadLog
from audit.importers.interface import Scalar

_PATTERN = "events.out.tfevents*"


def find(folder: Path) -> list[Path]:
    """Return the event files of a folder, or of its usual places."""
    places = [
        folder,
        folder / "tensorboard",
        folder / "tensorboard_log",
        folder / "logs",
        *folder.glob("runs/*"),
    ]
    for place in places:
        files = sorted(file for file in place.glob(_PATTERN) if file.is_file()) if place.is_dir() else []
        if files:
            return files
    return []


def read(files: list[Path], notes: list[str]) -> Iterator[Scalar]:
    """Yield their scalars, those that a trainer wrote as one-number tensors too.

    Raises
    ------
    BadLog
        TensorBoard is not installed.
    """
    try:
        from tensorboard.backend.event_processing import event_accumulator
        from tensorboard.util import tensor_util
    except ImportError:
        msg = f"{files[0].name} is TensorBoard's: install its reader with pip install 'rlaudit[tensorboard]'."
        raise BadLog(msg) from None
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    everything = {"scalars": 0, "tensors": 0}
    held = event_accumulator.EventAccumulator(str(files[0].parent), size_guidance=everything)
    try:
        held.Reload()
    # A foreign reader on a damaged file may raise anything.
    except Exception as error:
        notes.append(f"{files[0].name}: TensorBoard's reader stopped: {type(error).__name__}")
    tags: dict[str, Any] = held.Tags()
    for tag in tags.get("scalars", []):
        for event in held.Scalars(tag):
            yield Scalar(int(event.step), tag, float(event.value))
    for tag in tags.get("tensors", []):
        for event in held.Tensors(tag):
            value = tensor_util.make_ndarray(event.tensor_proto)
            if value.size == 1 and value.dtype.kind in "fiub":
                yield Scalar(int(event.step), tag, float(value.reshape(-1)[0]))
