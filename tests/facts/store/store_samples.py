"""Small runs of several files, an engine whose facts are known, and what the store should return."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit.facts.store import request
from audit.logs import open_run

NAMES = ("reward", "step", '["dot",[{"ratio": 0.2, "say": "it\'s"}]]', "a", "a.b", "a.b.c")
"""Facts of the test engine: odd names, and one that is a prefix of another."""
_FACTOR = {name: factor for factor, name in enumerate(NAMES, 1)}


def write_file(path: Path, step: int, rows: int = 3, *, seed: int = 0) -> Path:
    """Write one source file whose rewards tell step, row and seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "step": [step] * rows,
        "prompt_id": ["p"] * rows,
        "group_id": ["g"] * rows,
        "sample_index": list(range(rows)),
        "reward": [step + row / 100 + seed * 1000.0 for row in range(rows)],
    }
    # Plain, so that other values of the same number of rows have the same size.
    pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
    return path


def make_run(root: Path, files: int = 4, rows: int = 3) -> Path:
    """Write a run directory; ``step-10`` comes after ``step-9``."""
    for step in range(files):
        write_file(root / "rollouts" / f"step-{step}.parquet", step, rows + step % 2)
    return root


def value(name: str, step: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """The fact of the test engine: int64 for ``step``, else float64; NaN where it has none."""
    if name == "step":
        return step
    fact = reward * _FACTOR[name]
    return np.where(step == 1, np.nan, fact) if name == "a" else fact


class Engine:
    """Computes facts of a part from its rewards, and remembers what it was asked for."""

    def __init__(self, *, backwards: bool = False, fail_at: int | None = None) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self._backwards = backwards
        self._fail_at = fail_at

    def __call__(self, parts, names, *, device, progress):
        places = range(len(parts))
        for place in reversed(places) if self._backwards else places:
            if self._fail_at is not None and len(self.calls) >= self._fail_at:
                raise KeyboardInterrupt
            part = parts[place]
            self.calls.append((part.name.rsplit("/", 1)[-1], tuple(names)))
            schema = pa.schema([("step", pa.int64()), ("reward", pa.float64())])
            table = pa.Table.from_batches(part.batches(["step", "reward"], max_tokens=100), schema=schema)
            step, reward = (table[column].to_numpy() for column in ("step", "reward"))
            if progress is not None:
                progress(table.num_rows, 10 * table.num_rows)
            yield place, pa.table({name: value(name, step, reward) for name in names})

    @property
    def files(self) -> list[str]:
        """Files that were computed, in order."""
        return [file for file, _ in self.calls]


def expected(root: Path, names=NAMES) -> dict[str, np.ndarray]:
    """The facts by another route: the files in the order of their numbers, read by pyarrow."""
    paths = sorted((root / "rollouts").glob("*.parquet"), key=lambda p: int(p.stem.split("-")[1]))
    tables = [pq.read_table(path, columns=["step", "reward"]) for path in paths]
    step = np.concatenate([t["step"].to_numpy() for t in tables])
    reward = np.concatenate([t["reward"].to_numpy() for t in tables])
    return {name: value(name, step, reward) for name in names}


def ask(root: Path, names=NAMES, engine=None, **options):
    """Open the run, ask for facts, check them, and return the engine and the account."""
    engine = engine or Engine()
    table, account = request(open_run(root), names, engine=engine, **options)
    assert table.column_names == list(names)
    for name, wanted in expected(root, names).items():
        np.testing.assert_array_equal(table[name].to_numpy(), wanted, err_msg=name)
        assert table.schema.field(name).type == (pa.int64() if name == "step" else pa.float64())
    return engine, account


def segments(root: Path) -> dict[str, bytes]:
    """Every file in the run's store, by name."""
    folder = root / ".rlaudit" / "facts"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.is_dir() else {}


def replace_in_place(path: Path, **changes) -> None:
    """Write other rows under the same size and time of change."""
    before = path.stat()
    write_file(path, **changes)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
