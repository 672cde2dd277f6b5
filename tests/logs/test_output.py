"""Results are never written into a log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from synthetic import rollouts, write

from audit.errors import AuditError
from audit.facts.rows import RunRows
from audit.facts.weigh import write_weights
from audit.logs.output import check_output
from audit.objectives.catalogue import named


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    "inside",
    [
        "run.json.parquet",
        "rollouts/new.parquet",
        "rollouts/part-000000.parquet",
        "rollouts/../rollouts/x.parquet",
    ],
)
def test_no_place_inside_a_run_is_written_to(tmp_path: Path, inside: str) -> None:
    run = write(tmp_path / "run", rollouts(steps=1), "grpo")
    before = snapshot(tmp_path)
    with pytest.raises(AuditError, match="logs are never changed"):
        write_weights(RunRows.read(run), named("grpo"), tmp_path / "run" / inside)
    assert snapshot(tmp_path) == before


def test_nor_another_run_nor_a_file_beside_a_loose_input(tmp_path: Path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=1), "grpo"))
    write(tmp_path / "other", rollouts(steps=1), "grpo")
    loose = tmp_path / "loose"
    loose.mkdir()
    rows.run.files[0].path.rename(loose / "a.parquet")
    for place, inputs in (
        (tmp_path / "other" / "w.parquet", ()),
        (loose / "w.parquet", (loose / "a.parquet",)),
    ):
        with pytest.raises(AuditError, match="lies inside the log"):
            check_output(place, (".parquet",), inputs)


def test_devices_pipes_links_to_logs_and_other_endings_are_refused(tmp_path: Path) -> None:
    run = write(tmp_path / "run", rollouts(steps=1), "grpo")
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "link.parquet").symlink_to(run.files[0].path)
    for name, said in (
        ("pipe.parquet", "regular file"),
        ("link.parquet", "lies inside the log"),
        ("w.txt", "must end in .parquet"),
        ("gone/w.parquet", "no such directory"),
    ):
        with pytest.raises(AuditError, match=said):
            check_output(tmp_path / name, (".parquet",))


def test_an_ordinary_place_is_fine_and_an_old_result_is_replaced(tmp_path: Path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=1), "grpo"))
    out = tmp_path / "w.parquet"
    out.write_text("old")
    assert write_weights(rows, named("grpo"), out).rows == rows.num_rows
    assert out.read_bytes()[:4] == b"PAR1"


def test_nor_a_log_of_trl(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "completions"
    folder.mkdir(parents=True)
    (folder / "completions_00001.parquet").write_bytes(b"")
    for place in (folder / "w.parquet", tmp_path / "out" / "w.parquet"):
        with pytest.raises(AuditError, match="lies inside the log"):
            check_output(place, (".parquet",))
