"""The small columns kept per run: the same values as from the files, for unchanged files only."""

from __future__ import annotations

import os

import msgspec
import pyarrow as pa
import pytest
from log_samples import FILES, LISTS, assert_same_rows, columns, old, write

from audit.errors import BadLog
from audit.logs import open_run
from audit.logs.scalars import KEPT, NAME
from audit.schema import COLUMNS

pytestmark = pytest.mark.usefixtures("own_cache")


def by_files(path):
    """The kept columns, read file by file."""
    return pa.Table.from_batches(open_run(path).batches(KEPT))


def test_every_column_but_token_lists_and_texts_is_kept():
    left = {column.name for column in COLUMNS if not column.is_token_list} - set(KEPT)
    assert left == {"prompt", "response", "extra", "reward_components"}


def test_a_second_reading_opens_no_file_and_gives_the_same(many, opened):
    cold = open_run(many).responses(KEPT)
    assert_same_rows(cold, by_files(many))
    opened.clear()
    warm = open_run(many).responses(KEPT)
    assert not opened
    assert_same_rows(warm, cold)
    assert warm.schema.equals(cold.schema)
    some = ["reward", "step", "finish_reason"]
    assert_same_rows(open_run(many).responses(some), cold.select(some))
    assert not opened


def test_texts_are_read_from_the_files(many, opened):
    write(many / "rollouts" / "step3.parquet", columns(3, response=["yes", "no"]))
    run = open_run(many)
    assert [text for text in run.responses(["response"])["response"].to_pylist() if text] == ["yes", "no"]


def test_only_new_and_changed_files_are_read_again(many, opened):
    open_run(many).responses(KEPT)
    folder = many / "rollouts"
    old(write(folder / "step3.parquet", columns(3, rewards=(7.0, 8.0, 9.0))), seconds=60)
    old(write(folder / "step0.5.parquet", columns(100)), seconds=60)
    (folder / "step5.parquet").unlink()
    run = open_run(many)
    opened.clear()
    found = run.responses(KEPT)
    assert dict(opened) == {"step3.parquet": 1, "step0.5.parquet": 1}
    assert_same_rows(found, by_files(many))
    opened.clear()
    assert_same_rows(open_run(many).responses(KEPT), found)
    assert not opened


def test_a_file_that_changes_after_the_run_was_opened_is_noticed(many):
    open_run(many).responses(KEPT)
    run = open_run(many)
    old(write(many / "rollouts" / "step4.parquet", columns(5, logp_old=pa.array([[-0.5], [-1.0]], LISTS))))
    with pytest.raises(BadLog, match="changed after the run was opened"):
        run.responses(["reward"])


def test_a_run_that_is_still_written_to_is_not_kept(many, opened):
    (many / "rollouts" / "step7.parquet").touch()
    open_run(many).responses(KEPT)
    assert not (many / ".rlaudit" / NAME).exists()


def _rewritten(table, metadata):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema.with_metadata(metadata)) as writer:
        writer.write_table(table.replace_schema_metadata(metadata))
    return sink.getvalue().to_pybytes()


def _with_other_rows(files):
    return msgspec.msgpack.encode([(*file[:3], 4 if at % 2 else 0) for at, file in enumerate(files)])


@pytest.mark.parametrize(
    "damage",
    [
        lambda table, files: b"",
        lambda table, files: b"ARROW1 and then something else",
        lambda table, files: _rewritten(table, {}),
        lambda table, files: _rewritten(table, {b"rlaudit.files": b"\xff"}),
        lambda table, files: _rewritten(table.slice(1), {b"rlaudit.files": msgspec.msgpack.encode(files)}),
        lambda table, files: _rewritten(table.drop_columns("reward"), table.schema.metadata),
        lambda table, files: _rewritten(table, {b"rlaudit.files": _with_other_rows(files)}),
    ],
)  # fmt: skip
def test_a_damaged_file_is_as_none(many, damage):
    whole = open_run(many).responses(KEPT)
    file = many / ".rlaudit" / NAME
    with pa.OSFile(str(file)) as source:
        table = pa.ipc.open_file(source).read_all()
    files = msgspec.msgpack.decode(table.schema.metadata[b"rlaudit.files"])
    assert len(files) == FILES
    file.write_bytes(damage(table, files))
    assert_same_rows(open_run(many).responses(KEPT), whole)


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
    for _ in range(2):
        assert_same_rows(open_run(many).responses(KEPT), by_files(many))
    assert sorted(tmp_path.rglob("*")) == before


def test_links_to_one_file_share_nothing_but_their_bytes(tmp_path, opened):
    source = write(tmp_path / "source.parquet")
    old(source)
    folder = tmp_path / "run" / "rollouts"
    folder.mkdir(parents=True)
    for step in range(FILES):
        os.link(source, folder / f"step{step}.parquet")
    first = open_run(tmp_path / "run").responses(KEPT)
    opened.clear()
    assert_same_rows(open_run(tmp_path / "run").responses(KEPT), first)
    assert first.num_rows == 2 * FILES
    assert not opened
