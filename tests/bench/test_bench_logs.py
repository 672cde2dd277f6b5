"""The synthetic logs: valid, the same for the same seed, and shaped as real ones are."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit.facts.chosen import chosen_objective
from audit.facts.rows import RunRows
from audit.logs import open_run, validate
from audit.logs.catalogue import find_runs
from bench.decode import decode
from bench.directory import make_team
from bench.logs import groups_per_step, make, step_rows, write_steps
from bench.padded import LISTS, MOST_PADDED, to_update
from bench.second_look import log_bytes, token_column_bytes
from bench.sizes import BUDGET, Size

SIZE = Size(400_000, 2)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(SIZE, tmp_path_factory.mktemp("logs"))


def flat(log: Path, name: str) -> np.ndarray:
    return pq.read_table(log / "rollouts", columns=[name])[name].combine_chunks().flatten().to_numpy()


def test_size_and_files(log: Path) -> None:
    files = sorted(path.name for path in (log / "rollouts").iterdir())
    assert files == ["step00000-000000.parquet", "step00001-000000.parquet"]
    lengths = pq.read_table(log / "rollouts", columns=["length"])["length"].to_numpy()
    assert abs(lengths.sum() / SIZE.tokens - 1) < 0.25
    assert lengths.max() <= BUDGET
    assert decode(log, threads=False) == decode(log, threads=True) == lengths.sum()


def test_valid_and_the_declared_objective_is_understood(log: Path) -> None:
    run = open_run(log)
    assert [problem for problem in validate(run) if problem.severity != "info"] == []
    objective, _ = chosen_objective(RunRows.read(run), None)
    assert objective.aggregation.kind == "seq-mean-token-mean"


def test_same_seed_same_bytes(log: Path, tmp_path: Path) -> None:
    write_steps(SIZE, tmp_path, range(2))
    for path in (log / "rollouts").iterdir():
        digests = [
            hashlib.sha256((r / "rollouts" / path.name).read_bytes()).digest() for r in (log, tmp_path)
        ]
        assert digests[0] == digests[1]
    other = step_rows(Size(SIZE.tokens, SIZE.steps, seed=2), 0)
    assert not other.equals(step_rows(SIZE, 0))


def test_is_made_once(log: Path) -> None:
    before = (log / "run.json").stat().st_mtime_ns
    assert make(SIZE, log.parent) == log
    assert (log / "run.json").stat().st_mtime_ns == before
    assert sorted(path.name for path in log.parent.iterdir()) == [log.name]


def test_log_probs_look_real(log: Path) -> None:
    theta, old, sampler = (
        flat(log, f"logp_{name}").astype(np.float64) for name in ("theta", "old", "sampler")
    )
    assert old.max() <= 0
    assert 0.68 < (old > -0.01).mean() < 0.72
    ratio = np.exp(theta - old)
    assert 0.04 < ratio.std() < 0.07
    assert 0.01 < (np.abs(ratio - 1) > 0.2).mean() < 0.04
    assert np.abs(old - sampler).mean() < 0.01
    ids, counts = np.unique(flat(log, "token_ids"), return_counts=True)
    assert ids.min() >= 0
    assert ids.max() < 150_000
    assert counts.max() / counts.sum() > 0.04  # 1 / ln V of Zipf's law is 0.08


def test_advantages_are_those_of_the_declared_algorithm() -> None:
    for algorithm in ("grpo", "dr_grpo"):
        rows = step_rows(Size(100_000, 1, algorithm), 0)
        reward = rows["reward"].to_numpy().reshape(-1, 8)
        expected = [(r - r.mean()) / (np.std(r, ddof=1) + 1e-4 if algorithm == "grpo" else 1) for r in reward]
        np.testing.assert_allclose(
            rows["advantage"].to_numpy(), np.concatenate(expected), rtol=1e-12, atol=1e-15
        )


def test_written_as_the_writer_writes(log: Path) -> None:
    metadata = pq.read_metadata(log / "rollouts" / "step00000-000000.parquet")
    chunks = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    floats = [c for c in chunks if c.path_in_schema.startswith("logp_")]
    assert len(floats) == 4
    assert all(c.compression == "ZSTD" and "BYTE_STREAM_SPLIT" in c.encodings for c in floats)
    assert 0.9 < token_column_bytes(log) / log_bytes(log) < 1


def test_more_steps_follow(log: Path) -> None:
    longer = Size(SIZE.tokens * 2, SIZE.steps * 2)
    assert groups_per_step(longer) == groups_per_step(SIZE)
    assert step_rows(longer, 1).equals(step_rows(SIZE, 1))


def test_padded_batches_hold_the_log() -> None:
    table = pa.Table.from_batches([step_rows(SIZE, 0)])
    update = to_update(table, by_length=True)
    assert sorted(int(row) for part in update.slices for row in part.rows) == list(range(table.num_rows))
    for part in update.slices:
        assert part.mask.numel() <= MOST_PADDED
        for name, padded in zip(LISTS, (part.theta, part.old, part.ref, part.sampler), strict=True):
            for row, values, mask in zip(part.rows, padded, part.mask, strict=True):
                logged = table[name][int(row)].as_py()
                assert values[mask.bool()].tolist() == logged
                assert values[len(logged) :].eq(0).all()


def test_team_directory(tmp_path: Path) -> None:
    team = make_team(3, 4, tmp_path)
    runs = find_runs(team)
    assert len(runs) == 3
    assert all(entry.run is not None and len(entry.run.files) == 4 for entry in runs)
