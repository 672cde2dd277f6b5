"""The Ray engine: the bytes of the local one, whatever dies on the way."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from synthetic import centred, rollouts, with_advantages, write

from audit.errors import AuditError, BadLog
from audit.facts.columns import CORE
from audit.facts.engines import local
from audit.facts.engines import ray as engine
from audit.importers import open_run
from audit.logs import RolloutWriter
from audit.logs.parquet_part import ParquetPart
from audit.logs.places import Unreachable

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.ray,
    # Ray leaves sockets to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    """One cluster for all tests: it takes seconds to start."""
    import ray

    with engine.cluster(None):
        # Workers do not have the tests on their path.
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        yield
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
        assert ray.is_initialized(), "an engine leaves alone what it did not start"
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of several files."""
    folder = tmp_path_factory.mktemp("ray") / "run"
    rows = with_advantages(rollouts(steps=6), centred)
    write(folder, rows[:100], "grpo")
    with RolloutWriter(folder) as writer:
        for start in range(100, len(rows), 50):
            writer.write(rows[start : start + 50])
            writer.flush()
    return open_run(folder)


class Failing(ParquetPart):
    """A part that fails at the first attempt, and at every one where there is no mark to leave."""

    mark: Path | None = None
    how: str = "kill"

    def batches(self, columns, *, max_tokens, groups=None):
        if self.mark is None or not self.mark.exists():
            if self.mark is not None:
                self.mark.touch()
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise {"unreachable": Unreachable, "other": RuntimeError}[self.how]("no answer\nin time")
        return super().batches(columns, max_tokens=max_tokens, groups=groups)


def failing(part, how, mark=None):
    made = Failing(part.file, part.footer)
    made.how, made.mark = how, mark
    return made


def ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def by_place(found):
    return {place: ipc(table) for place, table in found}


def test_the_same_bytes_as_on_one_machine_and_every_file_once(cluster, run):
    seen = []
    found = list(engine.compute(run.parts, CORE, progress=lambda *done: seen.append(done)))
    assert sorted(place for place, _ in found) == list(range(len(run.parts)))
    assert by_place(found) == by_place(local.compute(run.parts, CORE))
    assert sum(rows for rows, _ in seen) == run.num_rows
    assert sum(tokens for _, tokens in seen) == sum(
        len(ids) for batch in run.batches(["token_ids"]) for ids in batch["token_ids"].to_pylist()
    )


@pytest.mark.parametrize("how", ["kill", "unreachable"])
def test_a_worker_that_dies_and_a_storage_that_fails_once_lose_nothing(cluster, run, tmp_path, how):
    parts = list(run.parts)
    for place in (0, 3):
        parts[place] = failing(parts[place], how, tmp_path / f"{how}{place}")
    found = by_place(engine.compute(parts, CORE))
    assert (tmp_path / f"{how}0").exists()
    assert found == by_place(local.compute(run.parts, CORE))


def test_a_worker_that_dies_every_time_is_one_line_that_names_the_file(cluster, run, monkeypatch):
    monkeypatch.setattr(engine, "RETRIES", 1)
    with pytest.raises(AuditError, match=r"part-000001\.parquet: its Ray worker died 2 times") as caught:
        list(engine.compute([run.parts[0], failing(run.parts[1], "kill")], CORE))
    assert "\n" not in str(caught.value)


def test_another_error_in_a_worker_is_one_line(cluster, run):
    with pytest.raises(AuditError, match=r"part-000001.*RuntimeError: no answer$"):
        list(engine.compute([failing(run.parts[1], "other")], CORE))


def test_a_damaged_file_is_the_same_error_as_on_one_machine(cluster, tmp_path):
    made = write(tmp_path / "run", with_advantages(rollouts(steps=2), centred), "grpo")
    path = made.files[0].path
    content, times = bytearray(path.read_bytes()), path.stat()
    content[4:2000] = b"\xff" * 1996
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    said = []
    for compute in (local.compute, engine.compute):
        with pytest.raises(BadLog, match="damaged") as caught:
            list(compute(made.parts, CORE))
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


def test_a_consumer_that_stops_early_stops_the_work(cluster, run):
    found = engine.compute(run.parts, CORE)
    assert next(found)[0] in range(len(run.parts))
    found.close()
    assert len(list(engine.compute(run.parts[:1], CORE))) == 1


def test_relative_names_and_lengths_that_are_no_tokens(cluster, run, monkeypatch):
    monkeypatch.chdir(run.path.parent)
    parts = open_run("run").parts
    found = by_place(engine.compute(parts, CORE, in_tokens=False))
    assert found == by_place(local.compute(run.parts, CORE, in_tokens=False))


@pytest.mark.parametrize(
    ("address", "said"),
    [("127.0.0.1:{port}", "cannot be reached"), ("ray://127.0.0.1:{port}", "cannot be reached"),
     ("nowhere", "expected host:port"), ("127.0.0.1:none", "cannot be reached")],
)  # fmt: skip
def test_an_address_where_nobody_listens_is_one_line(address, said, monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(AuditError, match=said) as caught:
        list(engine.compute([object()], CORE, address=address.format(port=port)))
    assert "\n" not in str(caught.value)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(AuditError, match=r"pip install 'rlaudit\[ray\]'"):
        list(engine.compute([object()], CORE))


def test_nothing_to_do_starts_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert list(engine.compute([], CORE)) == []
