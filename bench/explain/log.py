"""A run in memory: what can be edited, made blind, and written again as a log."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.logs import RolloutWriter

TELLING = ("framework", "model", "reference", "objective", "config", "group_size", "sampling", "data", "seed")
"""What a blind run.json does not say."""


@dataclass(frozen=True)
class Log:
    """One run: its manifest, its rows, and the scalars that its trainer logged."""

    manifest: dict[str, Any]
    rows: pa.Table
    metrics: pa.Table | None = None

    def with_rows(self, **columns: Any) -> Log:
        """Exchange or add columns."""
        rows = self.rows
        for name, values in columns.items():
            at = rows.schema.get_field_index(name)
            rows = rows.append_column(name, values) if at < 0 else rows.set_column(at, name, values)
        return replace(self, rows=rows)

    def without(self, *columns: str) -> Log:
        """Drop columns that are there."""
        return replace(self, rows=self.rows.drop_columns([c for c in columns if c in self.rows.column_names]))

    def take(self, kept: np.ndarray) -> Log:
        """Rows by a mask, shape (R,), bool, or by their indices."""
        indices = np.flatnonzero(kept) if kept.dtype == bool else kept
        return replace(self, rows=self.rows.take(pa.array(indices)))

    def column(self, name: str) -> np.ndarray:
        """One value per response, shape (R,)."""
        return np.asarray(self.rows[name].to_numpy(zero_copy_only=False))

    def blind(self) -> Log:
        """The same without anything that its run.json says of how it was trained."""
        return replace(self, manifest={k: v for k, v in self.manifest.items() if k not in TELLING})

    def write(self, folder: Path) -> Path:
        """Write the log into a new folder, whose name becomes the run id."""
        with RolloutWriter(folder, manifest={**self.manifest, "run_id": folder.name}) as writer:
            writer.write(self.rows)
        if self.metrics is not None:
            (folder / "metrics").mkdir()
            pq.write_table(self.metrics, folder / "metrics" / "part-00000.parquet")
        return folder


def read_log(folder: Path) -> Log:
    """Read a log that a recorder wrote; columns without any value are left out."""
    rows = pa.concat_tables(pq.read_table(file) for file in sorted((folder / "rollouts").glob("*.parquet")))
    empty = [name for name in rows.column_names if rows[name].null_count == rows.num_rows]
    scalars = sorted((folder / "metrics").glob("*.parquet"))
    return Log(
        manifest=json.loads((folder / "run.json").read_text(encoding="utf-8")),
        rows=rows.drop_columns(empty),
        metrics=pa.concat_tables(map(pq.read_table, scalars)) if scalars else None,
    )
