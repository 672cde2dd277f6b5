"""Rows of a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from audit.logs import open_run
from audit.schema import COLUMNS


def read_rows(run_dir: Path) -> list[dict[str, Any]]:
    """Return every row of a run with every column, in the order of recording."""
    batches = open_run(run_dir).batches([column.name for column in COLUMNS])
    return [row for batch in batches for row in batch.to_pylist()]
