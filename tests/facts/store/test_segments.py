"""Segments that are damaged, foreign or of another version are left out and written again."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import NAMES, ask, make_run, segments

from audit.facts.store import segment, shelf
from audit.facts.store.fingerprint import Source
from audit.facts.store.segment import Holding, header_of, open_segment, write_segment


def only_segment(root):
    (path,) = (root / ".rlaudit" / "facts").iterdir()
    return path


@pytest.mark.parametrize(
    "contents", [b"", b"PAR1", b"not Parquet at all", b"PAR1" + bytes(1000) + b"\x08\x00\x00\x00PAR1"]
)
def test_what_is_no_segment_is_removed_and_written_again(tmp_path, contents) -> None:
    make_run(tmp_path)
    ask(tmp_path)
    good = segments(tmp_path)
    only_segment(tmp_path).write_bytes(contents)
    (tmp_path / ".rlaudit" / "facts" / "other.facts").write_bytes(contents)
    assert len(ask(tmp_path)[0].calls) == 4
    assert segments(tmp_path) == good


@settings(max_examples=20)
@given(data=st.data())
def test_any_damage_gives_right_facts(tmp_path_factory, data) -> None:
    root = make_run(tmp_path_factory.mktemp("run"), files=3)
    ask(root)
    path = only_segment(root)
    good = path.read_bytes()
    place = data.draw(st.integers(0, len(good) - 1), label="place")
    if data.draw(st.booleans(), label="cut"):
        path.write_bytes(good[:place])
    else:
        change = data.draw(st.integers(1, 255), label="change")
        path.write_bytes(good[:place] + bytes([good[place] ^ change]) + good[place + 1 :])
    ask(root)
    ask(root)


def test_parquet_of_somebody_else_is_no_segment(tmp_path) -> None:
    make_run(tmp_path)
    ask(tmp_path)
    pq.write_table(pa.table({"reward": [1.0]}), tmp_path / ".rlaudit" / "facts" / "mine.facts")
    assert ask(tmp_path, in_order=True)[0].calls == []
    assert len(segments(tmp_path)) == 1


@pytest.mark.parametrize(("earlier", "left"), [(True, 1), (False, 2)])
def test_another_version_is_not_read_and_only_an_earlier_one_is_removed(
    tmp_path, monkeypatch, earlier, left
) -> None:
    make_run(tmp_path)
    ours = segment.FACTS_VERSION
    for module in (segment, shelf):
        monkeypatch.setattr(module, "FACTS_VERSION", ours - 1 if earlier else ours + 1)
    ask(tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv("RLAUDIT_CACHE", "run")
    assert len(ask(tmp_path)[0].calls) == 4
    assert len(segments(tmp_path)) == left
    assert ask(tmp_path)[0].calls == []


def test_a_header_that_does_not_fit_its_rows_is_refused(tmp_path) -> None:
    source = Source("a", 1, 2, "f", 3, True)
    table = pa.table({"x": [1.0, 2.0, 3.0]})
    good = write_segment(tmp_path, header_of(["x"], [source]), table)
    assert good.path is not None
    opened = open_segment(good.path)
    assert opened is not None
    assert opened.header == good.header
    for wrong in (
        header_of(["x"], [source, source]),
        msgspec.structs.replace(good.header, columns=("y",)),
    ):
        with pq.ParquetWriter(tmp_path / "w.facts", table.schema) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({b"rlaudit.facts": msgspec.json.encode(wrong)})
        assert open_segment(tmp_path / "w.facts") is None


@given(
    st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=6, unique=True).filter(
        lambda names: all("\x00" not in name for name in names)
    )
)
@settings(max_examples=20)
def test_columns_of_any_name_come_back(tmp_path_factory, names) -> None:
    folder = tmp_path_factory.mktemp("segment")
    values = {name: np.arange(3) + 10.0 * k for k, name in enumerate(names)}
    header = header_of(names, [Source("a", 1, 2, "f", 3, True)])
    written = write_segment(folder, header, pa.table(values))
    assert written.path is not None
    read = Holding(header, written.path).read(names)
    assert read.to_pydict() == {name: column.tolist() for name, column in values.items()}


def test_the_bytes_hold_neither_time_nor_machine(tmp_path) -> None:
    make_run(tmp_path)
    ask(tmp_path, NAMES)
    (one,) = segments(tmp_path).values()
    assert str(tmp_path).encode() not in one
