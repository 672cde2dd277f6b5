"""Lines of JSON: every line is a record or counted with its reason."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.importers.interface import Book
from audit.importers.jsonl import CUT, NOT_JSON, NOT_OBJECT, NOT_UTF8, first_record, first_with, records


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path) -> tuple[list[dict], Book]:
    book = Book()
    return list(records(path, book)), book


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


@given(
    st.lists(OBJECTS, max_size=5), st.booleans(), st.booleans(), st.sampled_from(["a.jsonl", "a.jsonl.gz"])
)
def test_what_json_writes_comes_back(tmp_path_factory, objects, bom, ended, name) -> None:
    lines = "\n\n".join(json.dumps(each) for each in objects) + ("\n" if ended else "")
    path = written(tmp_path_factory.mktemp("j") / name, (b"\xef\xbb\xbf" if bom else b"") + lines.encode())
    found, book = read(path)
    assert json.dumps(found) == json.dumps(objects)
    assert book.rejected.total() == 0


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=6))
def test_every_line_of_any_bytes_is_accounted_for(tmp_path_factory, lines) -> None:
    found, book = read(written(tmp_path_factory.mktemp("j") / "a.jsonl", b"\n".join(lines)))
    content = b"\n".join(lines).removeprefix(b"\xef\xbb\xbf")
    assert len(found) + book.rejected.total() == sum(bool(line.strip()) for line in content.split(b"\n"))


def test_each_reason_is_its_own(tmp_path) -> None:
    deep = b"[" * 200_000
    for levels in (150, 600, 900, 970):
        path = written(tmp_path / "deep.jsonl", b'{"a": ' + b"[" * levels + b"]" * levels + b"}")
        assert sum(read(path)[1].rejected.values()) == 1
    assert read(written(tmp_path / "wide.jsonl", b'{"a": [' + b"[[]]," * 500 + b"[]]}"))[0]
    content = b'{"a": NaN}\n{"a": 1e999}\nnot json\n[1]\n"\xff\xfe"\n' + deep + b'\n{"a": "\\ud800"}\n{"a": 1'
    found, book = read(written(tmp_path / "a.jsonl", content))
    assert math.isnan(found[0]["a"])
    assert found[1]["a"] == math.inf
    assert found[2]["a"] == "\ud800"
    assert book.rejected == {NOT_JSON: 2, NOT_OBJECT: 1, NOT_UTF8: 1, CUT: 1}


def test_bytes_are_told_as_they_are_read(tmp_path) -> None:
    told: list[int] = []
    path = written(tmp_path / "a.jsonl", b'{"a": 1}\n' * 10)
    assert len(list(records(path, Book(tick=told.append)))) == 10
    assert sum(told) == 80


def test_a_cut_archive_is_an_error_that_imports_name(tmp_path) -> None:
    whole = gzip.compress(b'{"a": 1}\n' * 1000)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(whole[:-20])
    with pytest.raises(EOFError):
        list(records(path, Book()))


def test_the_first_record_is_looked_at_and_never_raises(tmp_path) -> None:
    assert first_record(written(tmp_path / "a.jsonl", b'\n\n{"a": 1}\nx')) == {"a": 1}
    assert first_record(written(tmp_path / "b.jsonl", b'x\n{"a": 1}')) is None
    assert first_record(tmp_path / "none.jsonl") is None
    assert first_record(tmp_path) is None
    assert first_with(tmp_path / "a.jsonl", lambda record: "a" in record)
    assert not first_with(tmp_path / "b.jsonl", lambda record: True)
