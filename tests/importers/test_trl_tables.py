"""TRL's completions where W&B kept them: the same rows as from Parquet."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit.errors import BadLog
from audit.importers import find_runs, open_run

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "trl_completions" / "completions"


def as_wandb(root: Path) -> Path:
    """The sample's files as the tables that W&B makes of the same frames: step as text, NaN as null."""
    place = root / "wandb" / "offline-run-20260101_000000-abc" / "files" / "media" / "table"
    place.mkdir(parents=True)
    for at, file in enumerate(sorted(SAMPLE.glob("*.parquet"))):
        table = pq.read_table(file)
        rows = [list(row.values()) for row in table.to_pylist()]
        step = table.column_names.index("step")
        for row in rows:
            row[step] = str(row[step])
            row[:] = [None if isinstance(v, float) and math.isnan(v) else v for v in row]
        content = {"columns": table.column_names, "data": rows}
        (place / f"completions_{at + 9}_{at:020x}.table.json").write_text(json.dumps(content))
    return place


def rows_of(path: Path) -> list[dict]:
    names = [
        "step",
        "prompt",
        "response",
        "reward",
        "advantage",
        "group_id",
        "sample_index",
        "reward_components",
    ]
    return pa.Table.from_batches(list(open_run(path).batches(names))).to_pylist()


def test_the_tables_hold_the_rows_of_the_files(tmp_path) -> None:
    place = as_wandb(tmp_path)
    expected = rows_of(SAMPLE)
    for path in (tmp_path, tmp_path / "wandb", place, place.parents[1], place.parents[2]):
        found = rows_of(path)
        assert found == expected, path
    assert [entry.run.format for entry in find_runs(tmp_path)] == ["trl"]


def test_the_config_that_wandb_keeps_is_taken(tmp_path) -> None:
    place = as_wandb(tmp_path)
    (place.parents[1] / "config.yaml").write_text("num_generations: {value: 4}\nbeta: {value: 0.25}\n")
    manifest = open_run(tmp_path).manifest
    assert manifest.config["beta"] == 0.25
    assert manifest.group_size == 4


@pytest.mark.parametrize("content", ["", "{", "[]", '{"columns": ["step"], "data": [[1, 2]]}', "[" * 10**5])
def test_what_is_no_table_is_named(tmp_path, content) -> None:
    (tmp_path / "completions_1_ab.table.json").write_text(content)
    with pytest.raises(BadLog, match=r"no table of W&B|not a GRPO completions file|no TRL completions"):
        open_run(tmp_path)
