"""The long table of scalars, update by update."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from audit.recorders.metrics import SCHEMA


def write_scalars(path: Path, values: list[tuple[int, int | None, str, float]]) -> None:
    """Write (step, update, name, value) beside the rollouts."""
    (path / "metrics").mkdir(parents=True, exist_ok=True)
    step, update, name, value = (list(column) for column in zip(*values, strict=True))
    columns = [step, update, [None] * len(step), name, value]
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path / "metrics" / "part-00000.parquet")
