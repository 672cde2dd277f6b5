"""TRL's completions as tables of W&B: ``files/media/table/completions_*.table.json`` of a run.

With ``report_to="wandb"`` GRPOTrainer logs the frame that it writes as Parquet as a table too; before TRL
0.28 there was only the table. Its step is text, and NaN is null.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.errors import BadLog
from audit.logs.files import numeric_order

NAME = re.compile(r"completions_\d+_[0-9a-f]+\.table\.json")
_PLACES = (".", "media/table", "files/media/table")
_LONGEST = 2**30


def table_files(path: Path) -> list[Path]:
    """Return the tables of a run, its folder or the only one under ``wandb/``, in the order of steps."""
    runs = [*path.glob("wandb/*run-*"), *path.glob("*run-*")]
    for place in (*(path / place for place in _PLACES), *(runs[0] / p for p in _PLACES if len(runs) == 1)):
        found = [f for f in place.iterdir() if NAME.fullmatch(f.name)] if place.is_dir() else []
        if found:
            return sorted(found, key=lambda f: numeric_order(f.name))
    return []


def read_table(file: Path) -> pa.Table:
    """Read one table; a column is of numbers where all its values are, or nothing.

    Raises
    ------
    BadLog
        It is no table of W&B.
    OSError
        It cannot be read.
    """
    if file.stat().st_size > _LONGEST:
        raise BadLog("is larger than 1 GiB: no table of W&B")
    try:
        whole = json.loads(file.read_bytes())
        names, rows = whole["columns"], whole["data"]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return pa.table([_column(c, str(n) == "step") for n, c in zip(names, columns, strict=True)], names)
    except (ValueError, TypeError, KeyError, RecursionError, pa.ArrowException):
        raise BadLog("is no table of W&B: no columns and rows of one length") from None


def _column(values: tuple[Any, ...], of_steps: bool) -> pa.Array:
    if of_steps:
        return pa.array([float(value) for value in values], pa.float64())
    if all(value is None or isinstance(value, (int, float)) for value in values):
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    try:
        return pa.array(values)
    except pa.ArrowException:
        return pa.array([v if isinstance(v, str) else json.dumps(v) for v in values], pa.string())
