"""A killed process leaves whole files: what was flushed can be read, and nothing is wrong with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pytest

pytest.importorskip("trl")

from rows_read import read_rows

from audit.cli import main

pytestmark = pytest.mark.trl


@pytest.mark.parametrize("place", ["step", "write"])
def test_what_was_flushed_outlives_a_kill(
    place: str, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Path(__file__).with_name("killed_worker.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "sample_logs")}
    command = [sys.executable, str(worker), str(start), str(tmp_path), place]
    died = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]

    run = tmp_path / "run"
    shown = [file.name for file in (run / "rollouts").iterdir() if not file.name.startswith(".")]
    assert shown == ["rank000-000000.parquet"]
    hidden = [file for file in (run / "rollouts").iterdir() if file.name.startswith(".")]
    assert len(hidden) == (place == "write")
    rows = read_rows(run)
    assert Counter((row["update"], row["micro_batch"]) for row in rows) == {
        (update, micro): 16 for update in (1, 2, 3, 4) for micro in (0, 1)
    }
    logged = duckdb.read_parquet(str(run / "metrics" / "*.parquet")).project("step").fetchall()
    assert max(logged) <= (4,)
    with pytest.raises(SystemExit) as left:
        main(["check", str(run), "--json"])
    assert left.value.code == 0
    found = json.loads(capsys.readouterr().out)["problems"]
    # The half file is told of, and read by nobody.
    said = [problem["id"] for problem in found if problem["severity"] != "info"]
    assert said == ["file.skipped"] * len(hidden)
