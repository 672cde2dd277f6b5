"""Reading of the scalars beside a run."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic import rollouts, write

from audit.logs import open_run
from audit.logs.metrics import read_metrics


@pytest.fixture
def run(tmp_path):
    return write(tmp_path / "a", rollouts(steps=2))


def put(run, name: str, table: pa.Table) -> None:
    folder = run.path / "metrics"
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / name)


def test_no_folder_is_no_scalars(run) -> None:
    found = read_metrics(run)
    assert found.names == frozenset()
    assert len(found.value) == len(found.step) == 0
    assert found.skipped == ()


def test_files_of_other_writers_are_read(run) -> None:
    first = {
        "step": pa.array([1, 2], pa.int32()),
        "name": ["loss", "kl"],
        "value": pa.array([1, 2], pa.int64()),
    }
    put(run, "a.parquet", pa.table(first))
    second = {
        "step": [3.0, 4.0],
        "update": [7, None],
        "name": pa.array(["loss", "kl"]),
        "value": pa.array([math.nan, None]),
    }
    put(run, "b.parquet", pa.table(second))
    put(run, "c.parquet", pa.table({"step": [5], "update": [9], "name": ["loss"], "value": [math.inf]}))
    found = read_metrics(run)
    # A loss that is NaN was logged; a null was not.
    assert found.name.tolist() == ["loss", "kl", "loss", "loss"]
    np.testing.assert_equal(found.step, [1.0, 2.0, 3.0, 5.0])
    np.testing.assert_equal(found.update, [np.nan, np.nan, 7.0, 9.0])
    np.testing.assert_equal(found.micro_batch, [np.nan] * 4)
    np.testing.assert_equal(found.value, [1.0, 2.0, np.nan, np.inf])


def test_what_cannot_be_read_is_said_and_the_rest_is_read(run) -> None:
    put(run, "good.parquet", pa.table({"step": [1], "name": ["loss"], "value": [0.5]}))
    put(run, "no-value.parquet", pa.table({"step": [1], "name": ["loss"]}))
    put(run, "text.parquet", pa.table({"step": [1], "name": ["loss"], "value": ["a lot"]}))
    (run.path / "metrics" / "cut.parquet").write_bytes(b"PAR1 and no more")
    found = read_metrics(open_run(run.path))
    assert found.value.tolist() == [0.5]
    assert {skip.path.name for skip in found.skipped} == {"no-value.parquet", "text.parquet", "cut.parquet"}
