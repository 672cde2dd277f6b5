"""Directories whose Parquet files lie loose, without rollouts/ or run.json."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from synthetic import rollouts, write

from audit.logs import find_runs, open_run


def test_a_loose_run_is_listed_and_loose_data_is_not(tmp_path: Path) -> None:
    run = write(tmp_path / "made", rollouts(steps=2))
    loose = tmp_path / "team" / "loose"
    loose.mkdir(parents=True)
    run.files[0].path.rename(loose / "a.parquet")
    other = tmp_path / "team" / "dataset"
    other.mkdir()
    pq.write_table(pa.table({"question": ["x"]}), other / "train.parquet")
    assert [entry.run_id for entry in find_runs(tmp_path / "team")] == ["loose"]
    assert open_run(loose).num_rows == run.num_rows
