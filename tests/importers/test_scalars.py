"""Scalars beside a log: each trainer's and tracker's own files, written by it where it can be had."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import struct
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import BadLog
from audit.importers import open_run
from audit.importers.scalars import near
from audit.importers.scalars.lines import flat
from audit.importers.scalars.wandb_binary import config_of, histories
from audit.logs.metrics import read_metrics

ROWS = [{"prompt": "a", "response": "b", "reward": i, "step": i // 2} for i in range(4)]


def lines(path: Path, entries: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@pytest.fixture
def log(tmp_path):
    """A log of a generic format, in a folder of its own."""
    lines(tmp_path / "run" / "rollouts.jsonl", ROWS)
    return tmp_path / "run"


def read(log: Path) -> tuple[dict[tuple[int, str], float], str]:
    """What a log's run has in ``metrics/``, and its notes."""
    run = open_run(log / "rollouts.jsonl")
    found = read_metrics(run)
    keys = zip(found.step.astype(int).tolist(), found.name.tolist(), strict=True)
    return dict(zip(keys, found.value.tolist(), strict=True)), "; ".join(run.notes)


def test_a_log_without_scalars_has_none(log) -> None:
    assert read(log)[0] == {}
    assert near(log) is None


def test_trainer_state(log) -> None:
    history = [{"step": 1, "loss": 0.5, "epoch": 0.1}, {"step": 2, "loss": float("nan")}, {"loss": 3}]
    for place, entries in (("checkpoint-9", []), ("checkpoint-10", history)):
        (log / place).mkdir()
        (log / place / "trainer_state.json").write_text(json.dumps({"log_history": entries}))
    # A NaN was logged; what has no step belongs nowhere.
    expected = {(1, "loss"): 0.5, (1, "epoch"): 0.1, (2, "loss"): math.nan}
    assert read(log)[0] == pytest.approx(expected, nan_ok=True)


def test_metrics_jsonl_flat_and_nested(log) -> None:
    lines(log / "metrics.jsonl", [{"step": 3, "a/b": 1, "c": {"d": 2, "e": "x"}}, {"no": 1}])
    found, notes = read(log)
    assert found == {(3, "a/b"): 1.0, (3, "c/d"): 2.0}
    assert "metrics.jsonl: 1 of its lines left out: no step" in notes


def test_verl_file_logger(log) -> None:
    lines(log / "experiment.jsonl", [{"step": 1, "data": {"actor/kl": 0.5}}, {"step": 2, "data": {"x": 1}}])
    assert read(log)[0] == {(1, "actor/kl"): 0.5, (2, "x"): 1.0}


def test_wandb_history_prefers_the_trainers_step(log) -> None:
    files = log / "wandb" / "run-20260101_000000-abc" / "files"
    lines(files / "wandb-history.jsonl", [{"_step": 7, "train/global_step": 3, "train/loss": 0.25}])
    lines(log / "wandb" / "run-20250101_000000-old" / "files" / "wandb-history.jsonl", [{"_step": 1, "x": 1}])
    found, notes = read(log)
    assert found == {(3, "train/loss"): 0.25}
    assert "the newest, run-20260101_000000-abc, was taken" in notes


def test_wandb_summary_alone_is_said(log) -> None:
    file = log / "wandb" / "offline-run-20260101_000000-abc" / "files" / "wandb-summary.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"_step": 9, "kl": 0.5, "_runtime": 3, "table": {"_type": "table-file"}}')
    found, notes = read(log)
    assert found[9, "kl"] == 0.5
    assert "only the last values are known" in notes


OFFLINE = Path(__file__).parent / "scalar_files" / "run-offline.wandb"


def test_wandbs_own_file_of_an_offline_run(log) -> None:
    place = log / "wandb" / "offline-run-20260101_000000-abc"
    (place / "files").mkdir(parents=True)
    shutil.copy(OFFLINE, place / "run-abc.wandb")
    found, _ = read(log)
    logged = {key: value for key, value in found.items() if not key[1].startswith("_")}
    expected = {
        **{(10 * s + 10, "train/loss"): 0.5 + s for s in range(3)},
        **{(10 * s + 10, "nested/a"): float(s) for s in range(3)},
        (40, "big"): 1e300,
        (40, "nan"): math.nan,
    }
    assert logged == pytest.approx(expected, nan_ok=True)
    assert config_of(OFFLINE) == {"num_generations": 4, "beta": 0.25}


@given(st.integers(0, 2097), st.binary(max_size=20))
def test_a_damaged_file_of_wandb_gives_what_it_holds_or_is_named(tmp_path_factory, at, junk) -> None:
    whole = OFFLINE.read_bytes()
    file = tmp_path_factory.mktemp("w") / "run-x.wandb"
    file.write_bytes(whole[:at] + junk)
    try:
        found = list(histories(file))
    except BadLog:
        return
    if not junk:
        assert json.dumps(found) == json.dumps(list(histories(OFFLINE))[: len(found)])


def test_records_that_span_blocks_are_put_together(tmp_path) -> None:
    # By LevelDB's format: pieces of 7 bytes of head and what fits into a block of 32 KiB.
    text = json.dumps("x" * 100_000).encode()
    item = b"\x12\x01a" + b"\x82\x01" + _varint(len(text)) + text
    history = b"\x0a" + _varint(len(item)) + item
    record = b"\x12" + _varint(len(history)) + history
    out, rest, first = b":W&B\xe1\xbe\x00", record, True
    while rest:
        room = 32768 - len(out) % 32768 - 7
        piece, rest = rest[:room], rest[room:]
        kind = (1 if first else 4) if not rest else (2 if first else 3)
        out += struct.pack("<IHB", 0, len(piece), kind) + piece
        first = False
    (tmp_path / "run-x.wandb").write_bytes(out)
    assert list(histories(tmp_path / "run-x.wandb")) == [{"a": "x" * 100_000}]


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def test_trackio_database_and_export(log) -> None:
    base = sqlite3.connect(log / "project.db")
    base.execute(
        "CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT, timestamp TEXT, "
        "run_name TEXT, step INTEGER, metrics TEXT)"
    )
    rows = [("t1", "first", 0, '{"loss": 9}'), ("t2", "second", 1, '{"loss": 0.5}'), ("t3", "second", 2, "x")]
    base.executemany("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?,?,?,?)", rows)
    base.commit()
    base.close()
    found, notes = read(log)
    assert found == {(1, "loss"): 0.5}
    assert "holds 2 runs: the newest, second, was taken" in notes
    assert sorted(f.name for f in log.iterdir()) == ["project.db", "rollouts.jsonl"]
    (log / "project.db").unlink()
    made = [{"run_name": "r", "timestamp": "t", "step": 4, "loss": 0.25, "id": 1}]
    pq.write_table(pa.Table.from_pylist(made), log / "project.parquet")
    assert read(log)[0] == {(4, "loss"): 0.25}


def test_tensorboard_by_its_own_writer(log) -> None:
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    events = writer.EventFileWriter(str(log / "runs" / "today"))
    for step in (1, 2):
        value = Summary.Value(tag="train/loss", simple_value=step / 2)
        events.add_event(Event(step=step, summary=Summary(value=[value])))
    events.close()
    assert read(log)[0] == {(1, "train/loss"): 0.5, (2, "train/loss"): 1.0}


def test_a_missing_reader_is_named_and_the_log_opens(log, monkeypatch) -> None:
    (log / "events.out.tfevents.1").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing", None)
    found, notes = read(log)
    assert found == {}
    assert "pip install 'rlaudit[tensorboard]'" in notes


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trainer_state.json", b"{"),
        ("trainer_state.json", b'{"log_history": [{"step": "x", "loss": 1}, 3, {"step": 1e400, "a": 1}]}'),
        ("trainer_state.json", b"[" * 100_000),
        ("metrics.jsonl", b'{"step": 1, "a": 1}\n{"step": ' + b"9" * 400 + b', "a": 1}\n{"step": 2, "a"'),
        ("project.db", b"SQLite format 3\0" + b"\xff" * 100),
        ("events.out.tfevents.1", b"\xff" * 100),
    ],
)
def test_damaged_files_never_keep_a_log_from_opening(log, name, content) -> None:
    (log / name).write_bytes(content)
    assert set(read(log)[0]) <= {(1, "a")}


def test_scalars_are_read_again_only_when_they_changed(log, monkeypatch) -> None:
    lines(log / "metrics.jsonl", [{"step": 1, "a": 1}])
    assert read(log)[0] == {(1, "a"): 1.0}
    with monkeypatch.context() as patch:
        patch.setattr("audit.importers.scalars.metrics_jsonl.read", lambda *_: pytest.fail("read again"))
        assert read(log)[0] == {(1, "a"): 1.0}
    lines(log / "metrics.jsonl", [{"step": 1, "a": 1}, {"step": 2, "a": 2}])
    assert read(log)[0] == {(1, "a"): 1.0, (2, "a"): 2.0}


TREES = st.recursive(
    st.floats(allow_nan=False), lambda inner: st.dictionaries(st.text(), inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(st.text(), TREES, max_size=4))
def test_flat_keeps_every_leaf(tree) -> None:
    def leaves(value: object) -> list[float]:
        return [leaf for v in value.values() for leaf in leaves(v)] if isinstance(value, dict) else [value]

    assert [value for _, value in flat(tree)] == leaves(tree)
