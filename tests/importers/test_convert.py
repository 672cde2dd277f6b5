"""Rows of any importer → one Parquet file; every record is a row or rejected."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.importers.convert import convert
from audit.importers.grouping import LEFT_OUT
from audit.importers.interface import Importer, Options, Source, Unit
from audit.importers.rows import as_row, batches
from audit.importers.values import OddValue
from audit.logs.manifest import Manifest
from audit.schema import BY_NAME, COLUMNS


def importer(found: list, grouping: str = "given") -> Importer:
    def rows(unit: Unit, source: Source, book) -> Iterator:
        for each in found:
            if isinstance(each, str):
                book.reject(each)
            else:
                yield dict(each) if isinstance(each, dict) else each

    return Importer("x", "x", lambda p: None, lambda p: [], rows, lambda p: Manifest(run_id="x"), grouping)


def made(folder: Path, found: list, grouping: str = "given", **options):
    """Convert, and return what was made and the rows."""
    source = Source(folder, Options(**options), Manifest(run_id="x"))
    done = convert(importer(found, grouping), Unit("u", ()), source, folder / "out" / "a.parquet")
    return done, pq.read_table(folder / "out" / "a.parquet").to_pylist()


def row(**values: object) -> dict:
    return {"step": 0, "prompt": "p", "reward": 1.0, **values}


JUNK = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers())


@given(
    st.lists(
        st.sampled_from(["not JSON", "odd"])
        | st.dictionaries(st.sampled_from([*BY_NAME, "other"]), JUNK, max_size=6)
    ),
    st.sampled_from(["given", "blocks", "prompt"]),
)
def test_read_is_rows_and_rejected_whatever_the_log_holds(tmp_path_factory, found, grouping) -> None:
    done, rows = made(tmp_path_factory.mktemp("c"), found, grouping)
    assert done.read == len(found)
    assert done.read == done.rows + sum(done.rejected.values())
    assert done.rows == len(rows)
    assert sum(isinstance(each, str) for each in found) <= sum(done.rejected.values())


def test_dicts_and_tables_may_alternate(tmp_path) -> None:
    table = pa.table({"step": [1, 1], "prompt_id": ["t", "t"], "reward": [1.0, 2.0], "unknown": [0, 0]})
    done, rows = made(tmp_path, [row(), table, row(), "odd", row(), table])
    assert (done.read, done.rows, done.rejected) == (8, 7, {"odd": 1})
    assert [r["step"] for r in rows] == [0, 1, 1, 0, 0, 1, 1]


def test_every_column_is_there_and_what_is_unknown_is_in_extra(tmp_path) -> None:
    _, (only,) = made(tmp_path, [row(extra={"a": 1}, b=[1], c=None)])
    assert list(only) == [c.name for c in COLUMNS]
    assert only["extra"] == '{"a": 1, "b": [1]}'


def test_lists_of_one_row_that_differ_in_length_are_odd() -> None:
    with pytest.raises(OddValue, match="logp_old and token_ids differ in length"):
        as_row(row(token_ids=[1, 2], logp_old=[0.0]))


@pytest.mark.parametrize(
    "values",
    [{"step": 2**63}, {"sample_index": 2**31}, {"token_ids": "x"}, {"created_at": "never"}, {"prompt": None}],
)
def test_what_does_not_fit_is_named(values) -> None:
    with pytest.raises(OddValue):
        as_row(row(**values))


def test_length_and_prompt_id_follow() -> None:
    assert as_row(row(token_ids=[4, 5]))["length"] == 2
    assert as_row(row(token_ids=[4, 5], length=3))["length"] == 3
    assert (
        as_row(row())["prompt_id"] == as_row(row(step=9))["prompt_id"] != as_row(row(prompt="q"))["prompt_id"]
    )
    assert as_row(row(prompt_id=7))["prompt_id"] == "7"


def test_rebuilt_groups_number_their_samples_and_leave_out_what_cannot_be_told_apart(tmp_path) -> None:
    prompts = [f"{i // 2}" for i in range(40)] + ["twice"]
    order = [*range(41), 40, 40, 40]
    order[0], order[41] = order[41], order[0]
    done, rows = made(tmp_path, [row(prompt=prompts[i]) for i in order], "prompt", group_size=2)
    assert done.rejected == {LEFT_OUT: 4}
    assert done.grouped
    assert sorted(r["sample_index"] for r in rows) == [0] * 20 + [1] * 20


def test_rows_without_groups_have_none_and_it_is_said(tmp_path) -> None:
    done, rows = made(tmp_path, [row(prompt=str(i)) for i in range(4)], "blocks")
    assert not done.grouped
    assert done.notes
    assert {r["group_id"] for r in rows} == {None}


def test_a_failure_leaves_nothing_behind(tmp_path) -> None:
    def rows(unit: Unit, source: Source, book) -> Iterator:
        yield row()
        raise OSError("gone")

    broken = dataclasses.replace(importer([]), rows=rows)
    with pytest.raises(OSError, match="gone"):
        convert(
            broken, Unit("u", ()), Source(tmp_path, Options(), Manifest(run_id="x")), tmp_path / "a.parquet"
        )
    assert os.listdir(tmp_path) == []


def test_batches_are_bounded_in_rows_and_in_values() -> None:
    many = [as_row(row()) for _ in range(3000)]
    assert [b.num_rows for b in batches(many)] == [1024, 1024, 952]
    long = [as_row(row(response="x" * 1_500_000)) for _ in range(4)]
    assert [b.num_rows for b in batches(long)] == [2, 2]
