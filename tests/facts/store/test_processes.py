"""Several processes, killed processes, stopped processes: one computes, the others wait and read."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from pathlib import Path

import pytest
from store_samples import NAMES, Engine, ask, make_run, segments

from audit.facts.store import lock, request, writer
from audit.facts.store.watcher import Watcher
from audit.logs import open_run

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def _no_main_to_run_again(monkeypatch) -> None:
    """A new process runs the main module first, which the dashboard's tests leave set to its page."""
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))


class Slow(Engine):
    """Notes each file in a shared record, and takes its time."""

    def __init__(self, record: Path, seconds: float) -> None:
        super().__init__()
        self._record, self._seconds = record, seconds

    def __call__(self, parts, names, **options):
        for place, table in super().__call__(parts, names, **options):
            with self._record.open("a") as record:
                record.write(json.dumps(self.files[-1]) + "\n")
            time.sleep(self._seconds)
            yield place, table


def computed(record: Path) -> list[str]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def worker(root: Path, record: Path, seconds: float, every: float = 10.0) -> None:
    writer.EVERY = every
    ask(root, engine=Slow(record, seconds))


def wait_until(true, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_processes_at_once_compute_each_file_once(tmp_path) -> None:
    root = make_run(tmp_path / "run", files=6)
    record = tmp_path / "record"
    several = [SPAWN.Process(target=worker, args=(root, record, 0.02)) for _ in range(2)]
    for process in several:
        process.start()
    for process in several:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(computed(record)) == sorted(f"step-{n}.parquet" for n in range(6))
    assert ask(root)[0].calls == []


def test_threads_at_once_compute_each_file_once(tmp_path) -> None:
    root = make_run(tmp_path / "run", files=6)
    record = tmp_path / "record"
    several = [threading.Thread(target=worker, args=(root, record, 0.01)) for _ in range(4)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert sorted(computed(record)) == sorted(f"step-{n}.parquet" for n in range(6))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_killed_process_leaves_no_lock_and_what_it_saved(tmp_path) -> None:
    root = make_run(tmp_path / "run", files=8)
    record = tmp_path / "record"
    process = SPAWN.Process(target=worker, args=(root, record, 0.05, 0.0))
    process.start()
    wait_until(lambda: len(computed(record)) >= 4)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    # As a writer leaves it that is killed in the middle of a file.
    (root / ".rlaudit" / "facts" / "x.facts.1.tmp").write_bytes(b"PAR1 half")
    done = len(computed(record))
    start = time.monotonic()
    again, _ = ask(root, in_order=True)
    assert time.monotonic() - start < 5
    assert 8 - done <= len(again.calls) <= 8 - done + 2
    assert len(segments(root)) == 1
    assert ask(root)[0].calls == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_process_that_hangs_is_waited_for_and_then_not(tmp_path, monkeypatch) -> None:
    root = make_run(tmp_path / "run", files=4)
    record = tmp_path / "record"
    process = SPAWN.Process(target=worker, args=(root, record, 30.0))
    process.start()
    wait_until(lambda: len(computed(record)) == 1)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        monkeypatch.setattr(lock, "PATIENCE", 0.3)
        told = Told()
        engine = Engine()
        table, account = request(open_run(root), NAMES, engine=engine, watcher=told)
        assert table.num_rows == 14
        assert len(engine.calls) == 4
        assert told.said[0].startswith("waiting for another process")
        assert "does not go on" in account.not_stored
        assert not segments(root)
    finally:
        process.kill()
        process.join()
    assert len(ask(root)[0].calls) == 4
    assert ask(root)[0].calls == []


class Told(Watcher):
    def __init__(self) -> None:
        self.said: list[str] = []

    def waiting(self, message: str) -> None:
        self.said.append(message)

    def not_stored(self, message: str) -> None:
        self.said.append(message)


def test_a_holder_that_shows_signs_of_life_is_waited_for(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.5)
    monkeypatch.setattr(lock, "BEAT", 0.05)
    root = make_run(tmp_path / "run", files=3)
    record = tmp_path / "record"
    first = threading.Thread(target=worker, args=(root, record, 0.4))
    first.start()
    wait_until(lambda: len(computed(record)) == 1)
    told = Told()
    engine = Engine()
    request(open_run(root), NAMES, engine=engine, watcher=told)
    first.join()
    assert engine.calls == []
    assert len(told.said) == 1


def test_a_folder_that_cannot_be_locked_stores_nothing(tmp_path, monkeypatch) -> None:
    def refused(*_, **__):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.FileLock, "acquire", refused)
    root = make_run(tmp_path)
    engine, account = ask(root)
    assert len(engine.calls) == 4
    assert "cannot be locked (No locks available)" in account.not_stored
    assert not segments(root)


def test_reading_while_segments_are_put_in_order(tmp_path) -> None:
    root = make_run(tmp_path, files=30)
    ask(root)
    run = open_run(root)
    stop = threading.Event()

    def churn() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            request(run, [NAMES[n % len(NAMES)], f"extra {n}"], engine=extra, in_order=bool(n % 2))

    def extra(parts, names, **_):
        import numpy as np
        import pyarrow as pa

        for place, part in enumerate(parts):
            yield place, pa.table({name: np.zeros(part.num_rows) for name in names})

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(20):
            engine, _ = ask(root)
            assert engine.calls == []
    finally:
        stop.set()
        thread.join()
