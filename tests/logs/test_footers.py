"""What is remembered of a run's footers: used for unchanged files only, and never needed."""

from __future__ import annotations

import os

import msgspec
import pyarrow as pa
import pytest
from log_samples import FILES, LISTS, assert_same_rows, columns, old, stream_table, write

from audit.logs import find_runs, open_run
from audit.logs.footers import NAME

pytestmark = pytest.mark.usefixtures("own_cache")


def described(path):
    """Everything that a footer says, through the public face of a run."""
    run = open_run(path)
    every = frozenset(name for part in run.parts for name in part.types)
    return (
        run.columns,
        [(f.name, f.size, f.mtime_ns) for f in run.files],
        [(p.name, p.num_rows, dict(p.types), p.unknown, p.signature, p.holding(every)) for p in run.parts],
        [(skip.path, skip.reason) for skip in run.skipped],
    )


def test_a_second_opening_reads_no_footer_and_says_the_same(many, opened):
    cold = described(many)
    assert sum(opened.values()) > FILES
    open_run(many)
    opened.clear()
    warm = open_run(many)
    assert warm.columns == cold[0]
    assert not opened
    assert described(many) == cold
    assert_same_rows(stream_table(warm), stream_table(open_run(many)))


def test_the_first_opening_reads_each_footer_once(many, opened):
    open_run(many)
    assert set(opened.values()) == {1}


def test_only_new_and_changed_files_are_read_again(many, opened):
    open_run(many)
    folder = many / "rollouts"
    old(write(folder / "step3.parquet", columns(3, rewards=(7.0, 8.0, 9.0))), seconds=60)
    old(write(folder / "step100.parquet", columns(100)), seconds=60)
    (folder / "step5.parquet").unlink()
    opened.clear()
    now = open_run(many)
    assert dict(opened) == {"step3.parquet": 1, "step100.parquet": 1}
    steps = [int(f.name.removeprefix("rollouts/step").removesuffix(".parquet")) for f in now.files]
    assert steps == [*(n for n in range(FILES) if n != 5), 100]
    assert now.num_rows == 2 * (FILES - 1) + 1 + 2
    opened.clear()
    open_run(many)
    assert not opened


def test_a_file_of_the_same_size_is_known_by_its_time(many):
    open_run(many)
    path = many / "rollouts" / "step4.parquet"
    size = path.stat().st_size
    old(write(path, columns(4, rewards=(float("nan"), 0.5), logp_old=pa.array([[-0.5], [-1.0]], LISTS))))
    other = open_run(many)
    old(write(path, columns(5, logp_old=pa.array([[-0.5], [-1.0]], LISTS))), seconds=50)
    assert path.stat().st_size == size
    assert {row["step"] for row in stream_table(open_run(many)).to_pylist()} == {*range(FILES), 5} - {4}
    with pytest.raises(ValueError, match="changed after the run was opened"):
        other.responses()


def test_a_file_written_just_now_is_not_remembered(many, opened):
    (many / "rollouts" / "step7.parquet").touch()
    open_run(many)
    opened.clear()
    open_run(many)
    assert dict(opened) == {"step7.parquet": 1}


@pytest.mark.parametrize("content", [b"", b"\x00garbage", b"\x80", msgspec.msgpack.encode({"schemas": []})])
def test_a_damaged_index_is_as_none(many, content, opened):
    cold = described(many)
    index = many / ".rlaudit" / NAME
    index.write_bytes(content)
    assert described(many) == cold
    assert index.read_bytes() != content


@pytest.mark.parametrize(
    "change",
    [
        {"kinds": [99] * (FILES + 1)},
        {"rows": [1]},
        {"schemas": [b"no schema"]},
        {"held": [-1] * FILES},
    ],
)
def test_an_index_that_contradicts_itself_is_as_none(many, change):
    cold = described(many)
    index = many / ".rlaudit" / NAME
    index.write_bytes(msgspec.msgpack.encode(msgspec.msgpack.decode(index.read_bytes()) | change))
    assert described(many) == cold


def test_an_index_that_lies_about_rows_is_found_out_when_they_are_read(many):
    open_run(many)
    index = many / ".rlaudit" / NAME
    stored = msgspec.msgpack.decode(index.read_bytes())
    index.write_bytes(msgspec.msgpack.encode(stored | {"rows": [n + 1 for n in stored["rows"]]}))
    with pytest.raises(ValueError, match="open the run again"):
        open_run(many).responses()


@pytest.mark.parametrize("how", ["off", "read-only", "few"])
def test_nothing_is_needed_and_nothing_left_behind(many, how, monkeypatch, tmp_path):
    if how == "off":
        monkeypatch.setenv("RLAUDIT_CACHE", "off")
    elif how == "read-only":
        (tmp_path / "file").touch()
        monkeypatch.setenv("RLAUDIT_CACHE", "user")
        monkeypatch.setenv("RLAUDIT_CACHE_DIR", str(tmp_path / "file" / "below"))
    else:
        for step in range(5, FILES):
            (many / "rollouts" / f"step{step}.parquet").unlink()
    before = sorted(tmp_path.rglob("*"))
    assert described(many) == described(many)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_moved_run_keeps_its_index(many, opened):
    open_run(many)
    many.rename(many.with_name("elsewhere"))
    opened.clear()
    assert open_run(many.with_name("elsewhere")).num_rows == 2 * FILES
    assert not opened


def test_a_catalogue_of_many_files_opens_none_of_them(tmp_path, opened):
    source = write(tmp_path / "source.parquet")
    old(source)
    for name in range(10):
        folder = tmp_path / "runs" / f"run{name}" / "rollouts"
        folder.mkdir(parents=True)
        for step in range(100):
            os.link(source, folder / f"step{step}.parquet")
    cold = [(entry.run_id, entry.run.num_rows, entry.run.columns) for entry in find_runs(tmp_path / "runs")]
    opened.clear()
    warm = [(entry.run_id, entry.run.num_rows, entry.run.columns) for entry in find_runs(tmp_path / "runs")]
    assert warm == cold
    assert [rows for _, rows, _ in warm] == [200] * 10
    assert not opened


def test_a_pipe_in_place_of_the_index_is_not_waited_for(many):
    open_run(many)
    index = many / ".rlaudit" / NAME
    index.unlink()
    os.mkfifo(index)
    assert open_run(many).num_rows
