"""Small logs for the tests, written by plain pyarrow: the reader is tested without the package's writer."""

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.logs.footers import FEWEST
from audit.schema import COLUMNS

FILES = FEWEST + 4
"""Files of a run for which something is remembered."""
LISTS = pa.list_(pa.float32())


def columns(step=1, rewards=(0.0, 0.5), **others):
    """Required columns of one group with these rewards, and any others; None leaves a column out."""
    n = len(rewards)
    base = {
        "step": [step] * n,
        "prompt_id": ["p"] * n,
        "group_id": [f"g{step}"] * n,
        "sample_index": list(range(n)),
        "reward": list(rewards),
    }
    return {name: values for name, values in {**base, **others}.items() if values is not None}


def write(path, table=None, **options):
    """Write a Parquet file, making its folders; ``table`` may be a dict of columns."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = columns() if table is None else table
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **options)
    return path


def old(path, *, seconds=3600):
    """Make a file look as if it had been written long ago."""
    then = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(then, then))


def view_table(run):
    """The whole DuckDB view as an Arrow table, in the row order of batches()."""
    names = ", ".join(f'"{column.name}"' for column in COLUMNS)
    with run.connect() as connection:
        return connection.sql(f"SELECT {names} FROM rollouts ORDER BY _file, _row").to_arrow_table()


def stream_table(run, **options):
    """The same through batches()."""
    return pa.Table.from_batches(run.batches([column.name for column in COLUMNS], **options))


def assert_same_rows(a, b):
    """Compare two tables value by value; NaN equals NaN, null equals only null."""
    assert a.column_names == b.column_names
    assert a.num_rows == b.num_rows
    for name in a.column_names:
        np.testing.assert_equal(a[name].to_pylist(), b[name].to_pylist(), err_msg=name)
