"""The scalars that a trainer logged beside its rollouts, ``<run>/metrics/*.parquet``, as one long table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.logs.arrays import to_numpy
from audit.logs.places import is_remote
from audit.logs.run import Run
from audit.logs.walk import SkippedFile, walk

FOLDER = "metrics"
_TYPES = {"step": pa.float64(), "update": pa.float64(), "micro_batch": pa.float64(), "value": pa.float64()}


@dataclass(frozen=True)
class Metrics:
    """Logged scalars, M of them, in file order."""

    name: np.ndarray
    """str, shape (M,)."""
    step: np.ndarray
    """The trainer's step, float64, shape (M,); NaN where not given."""
    update: np.ndarray
    micro_batch: np.ndarray
    value: np.ndarray
    """float64, shape (M,); NaN and infinities as they were logged."""
    skipped: tuple[SkippedFile, ...] = ()
    """Files that could not be read."""

    @property
    def names(self) -> frozenset[str]:
        """Every name that was logged."""
        return frozenset(self.name.tolist())


def read_metrics(run: Run) -> Metrics:
    """Read the scalars of a run; a file that cannot be read is left out and said.

    Returns
    -------
    Metrics
        Without rows where nothing was logged.
    """
    top = run.place / FOLDER
    skipped: list[SkippedFile] = []
    tables = []
    if is_remote(run.place) or top.is_dir():
        for found in walk(top, run.place, skipped):
            path = run.place / found.name
            try:
                if found.problem:
                    raise OSError(found.problem)
                with path.open("rb") as stream:
                    # Not read_table, which imports pyarrow.dataset and with it pandas.
                    tables.append(_columns(pq.ParquetFile(stream).read()))
            except (OSError, pa.ArrowException, KeyError) as error:
                skipped.append(
                    SkippedFile(path, f"no readable table of metrics: {str(error).splitlines()[0]}")
                )
    if not tables:
        tables.append([np.zeros(0, dtype=object), *(np.zeros(0) for _ in _TYPES)])
    name, step, update, micro_batch, value = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    return Metrics(name, step, update, micro_batch, value, tuple(skipped))


def _columns(table: pa.Table) -> list[np.ndarray]:
    """name, step, update, micro_batch, value; rows without a name or a value are no measurement.

    A value that is NaN was measured: null alone means that nothing was logged.
    """
    rows = table.num_rows
    found = {}
    for name, kind in _TYPES.items():
        if name in table.column_names:
            found[name] = np.array(to_numpy(table[name].cast(kind)))
        elif name == "value":
            raise KeyError(name)
        else:
            found[name] = np.full(rows, np.nan)
    names = np.array(table["name"].cast(pa.string()).to_pylist(), dtype=object)
    use = np.array([name is not None for name in names], dtype=bool) & to_numpy(table["value"].is_valid())
    return [column[use] for column in (names, *(found[name] for name in _TYPES))]
