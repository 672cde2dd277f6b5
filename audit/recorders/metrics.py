"""The scalars that a trainer logged, as a long table beside the rollouts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("update", pa.int64()),
        ("micro_batch", pa.int32()),
        ("name", pa.string()),
        ("value", pa.float64()),
    ]
)


class MetricsWriter:
    """Appends logged scalars under ``<run>/metrics``; every file appears whole or not at all.

    Parameters
    ----------
    run_dir : Path
        The run directory; ``metrics/`` is made in it on the first flush.
    """

    def __init__(self, run_dir: Path) -> None:
        self._directory = run_dir / "metrics"
        self._rows: list[tuple[int, int, None, str, float]] = []
        self._files = 0

    def add(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Keep the numbers among ``scalars``, NaN too, as logged at ``step``; other values are left out."""
        for name, value in scalars.items():
            if type(value) in (int, float):
                self._rows.append((step, step, None, name, float(value)))

    def flush(self) -> None:
        """Write what was added since the last flush as one more file."""
        if not self._rows:
            return
        columns = list(zip(*self._rows, strict=True))
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"part-{self._files:05d}.parquet"
        partial = path.with_suffix(".parquet.tmp")
        with partial.open("wb") as stream:
            pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), stream, compression="zstd")
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
        self._files += 1
        self._rows.clear()
