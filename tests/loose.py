"""Logs that the package's own writer would refuse: with required values that are null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from audit.logs import Run, open_run


def write_loose(path: Path, rows: list[dict[str, Any]], **manifest: Any) -> Run:
    """Write rows as pyarrow infers their types, and open the run."""
    (path / "rollouts").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path / "rollouts" / "part.parquet")
    declared = {"schema": "rlaudit.run.v1", "run_id": path.name, **manifest}
    (path / "run.json").write_text(json.dumps(declared))
    return open_run(path)
