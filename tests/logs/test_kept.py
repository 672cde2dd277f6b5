"""Results that are kept: the same as new ones, until the log or the program changes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from synthetic import rollouts, write

import audit
from audit.logs import cache_files
from audit.logs import kept as module
from audit.logs.cache_files import read_cached, write_cached
from audit.logs.kept import kept
from audit.logs.run import Run

LONG_AGO = time.time() - 3600


class Count(msgspec.Struct, frozen=True):
    """A result."""

    rows: float
    note: str = ""
    anything: object = None


class Counter:
    """Makes the result, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, run: Run) -> Count:
        self.made += 1
        return Count(np.float64(run.num_rows), run.run_id, (1, float("inf")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose files are old enough to be told apart by their times."""
    write(tmp_path / "run", rollouts(steps=2, epochs=1))
    for file in (tmp_path / "run").rglob("*.parquet"):
        os.utime(file, (LONG_AGO, LONG_AGO))
    return tmp_path / "run"


def test_the_second_time_it_is_read(folder: Path) -> None:
    make = Counter()
    first = kept(audit.open_run(folder), "count", Count, make)
    second = kept(audit.open_run(folder), "count", Count, make)
    assert (make.made, second) == (1, first)
    assert first == Count(64, "run", [1, float("inf")])


def test_a_run_that_was_moved_keeps_its_results(folder: Path) -> None:
    make = Counter()
    kept(audit.open_run(folder), "count", Count, make)
    moved = folder.rename(folder.with_name("elsewhere"))
    kept(audit.open_run(moved), "count", Count, make)
    assert make.made == 1


def _touched(folder: Path) -> None:
    file = next(folder.rglob("*.parquet"))
    os.utime(file, (LONG_AGO + 1, LONG_AGO + 1))


def _one_more(folder: Path) -> None:
    file = next(folder.rglob("*.parquet"))
    other = file.with_name("another.parquet")
    other.write_bytes(file.read_bytes())
    os.utime(other, (LONG_AGO, LONG_AGO))


def _declared(folder: Path) -> None:
    (folder / "run.json").write_text('{"run_id": "run", "objective": {"name": "rloo"}}')


def _damaged(folder: Path) -> None:
    file = folder / ".rlaudit" / "count.v1.msgpack"
    file.write_bytes(file.read_bytes()[:-3])


def _another_result(folder: Path) -> None:
    file = folder / ".rlaudit" / "count.v1.msgpack"
    held = msgspec.msgpack.decode(file.read_bytes())
    file.write_bytes(msgspec.msgpack.encode({**held, "result": {"rows": "many"}}))


def _nested(folder: Path) -> None:
    file = folder / ".rlaudit" / "count.v1.msgpack"
    file.write_bytes(b"\x82\xa3key\xa0\xa6result" + b"\x91" * 100_000 + b"\xc0")


def _a_pipe(folder: Path) -> None:
    file = folder / ".rlaudit" / "count.v1.msgpack"
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    "change",
    [_touched, _one_more, _declared, _damaged, _another_result, _nested, _a_pipe],
)
def test_it_is_made_again_when_something_changed(folder: Path, change) -> None:
    make = Counter()
    kept(audit.open_run(folder), "count", Count, make)
    change(folder)
    kept(audit.open_run(folder), "count", Count, make)
    assert make.made == 2
    # And kept in its new form.
    kept(audit.open_run(folder), "count", Count, make)
    assert make.made == 2


def test_another_version_of_the_program_makes_it_again(folder: Path, monkeypatch) -> None:
    make = Counter()
    kept(audit.open_run(folder), "count", Count, make)
    monkeypatch.setattr(module, "_program", lambda: "another")
    kept(audit.open_run(folder), "count", Count, make)
    assert make.made == 2


def test_the_digest_of_the_program_sees_every_file_of_it() -> None:
    root = Path(audit.__file__).parent
    seen = {path for path, _ in module._files(str(root))}
    assert seen == {
        str(file) for file in root.rglob("*") if file.is_file() and "__pycache__" not in str(file)
    }


def test_a_young_file_may_still_change_unseen(tmp_path: Path) -> None:
    run = write(tmp_path / "run", rollouts(steps=2, epochs=1))
    make = Counter()
    first = kept(run, "count", Count, make)
    assert kept(run, "count", Count, make) == first
    assert make.made == 2
    assert not list(tmp_path.rglob("count*"))


def test_nothing_is_kept_where_nothing_may_be(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE", "off")
    make = Counter()
    for _ in range(2):
        assert kept(audit.open_run(folder), "count", Count, make).rows == 64
    assert make.made == 2
    assert not list(folder.rglob("count*"))


def test_files_of_a_cache_are_whole_or_absent(tmp_path: Path) -> None:
    file = tmp_path / ".rlaudit" / "one"
    assert read_cached(file) is None
    assert write_cached(file, b"\x00whole", tmp_path)
    assert read_cached(file) == b"\x00whole"
    assert [each.name for each in file.parent.iterdir() if each.suffix == ".tmp"] == []
    file.unlink()
    file.mkdir()
    assert read_cached(file) is None
    assert not write_cached(file, b"", tmp_path)
    assert [each.name for each in file.parent.iterdir() if each.suffix == ".tmp"] == []


def test_a_file_larger_than_any_of_ours_is_not_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cache_files, "LARGEST", 5)
    (tmp_path / "five").write_bytes(b"12345")
    (tmp_path / "six").write_bytes(b"123456")
    assert read_cached(tmp_path / "five") == b"12345"
    assert read_cached(tmp_path / "six") is None
