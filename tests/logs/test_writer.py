"""The writer: whole files or none, nothing overwritten, clear errors, and every value comes back."""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fuzz import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_samples import assert_same_rows, columns, stream_table, view_table, write

from audit.errors import BadLog, BadManifest, MissingColumn, UnknownName
from audit.logs import Manifest, RolloutWriter, hash_prompt, open_run
from audit.schema import COLUMNS, TOKEN_LISTS, arrow_schema


def row(i=0, **others):
    return {"step": 1, "prompt_id": "p", "group_id": "g", "sample_index": i, "reward": 0.5, **others}


def files(run_dir):
    return sorted(path.name for path in (run_dir / "rollouts").iterdir())


def test_nothing_is_seen_before_the_file_is_whole(tmp_path):
    with RolloutWriter(tmp_path, max_tokens_per_group=1) as writer:
        writer.write([row(0, token_ids=[1]), row(1, token_ids=[1])])
        assert [name for name in files(tmp_path) if not name.startswith(".")] == []
        with pytest.raises(BadLog, match="being written"):
            open_run(tmp_path)
        writer.flush()
        assert files(tmp_path) == ["part-000000.parquet"]
        assert open_run(tmp_path).num_rows == 2
        writer.flush()
        assert files(tmp_path) == ["part-000000.parquet"]
        writer.write([row(2)])
    assert files(tmp_path) == ["part-000000.parquet", "part-000001.parquet"]
    assert open_run(tmp_path).num_rows == 3
    with pytest.raises(BadLog, match="closed"):
        writer.write([row()])


def test_rows_written_before_an_exception_are_kept(tmp_path):
    def training(writer):
        with writer:
            writer.write([row()])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        training(RolloutWriter(tmp_path))
    assert open_run(tmp_path).num_rows == 1


def test_a_killed_writer_loses_only_what_was_not_flushed(tmp_path):
    code = f"""
import os
from audit.logs import RolloutWriter
row = dict(step=1, prompt_id="p", group_id="g", reward=0.5, token_ids=[1])
w = RolloutWriter({str(tmp_path)!r}, max_tokens_per_group=1)
w.write([dict(row, sample_index=0)]); w.flush()
w.write([dict(row, sample_index=i) for i in (1, 2)])
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    run = open_run(tmp_path)
    assert run.responses(["sample_index"])["sample_index"].to_pylist() == [0]
    assert [s.reason for s in run.skipped] == ["being written"]
    with RolloutWriter(tmp_path) as writer:
        writer.write([row(1)])
    assert open_run(tmp_path).num_rows == 2


def test_numbering_goes_on_and_nothing_is_overwritten(tmp_path):
    for i in range(3):
        with RolloutWriter(tmp_path) as writer:
            writer.write([row(i)])
    assert files(tmp_path) == [f"part-00000{i}.parquet" for i in range(3)]
    assert open_run(tmp_path).responses(["sample_index"])["sample_index"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("links", [True, False])
def test_concurrent_writers_do_not_collide(tmp_path, monkeypatch, links):
    if not links:

        def refuse(*paths):
            raise PermissionError

        monkeypatch.setattr(os, "link", refuse)

    def work(rank):
        with RolloutWriter(tmp_path, prefix=f"rank{rank % 2}", manifest={"group_size": 2}) as writer:
            for i in range(5):
                writer.write([row(i, group_id=str(rank))])
                writer.flush()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files(tmp_path) == sorted(f"rank{r}-{i:06d}.parquet" for r in (0, 1) for i in range(10))
    assert sorted(open_run(tmp_path).responses(["group_id"])["group_id"].to_pylist()) == sorted("0123" * 5)


def test_rows_per_file(tmp_path):
    with RolloutWriter(tmp_path, rows_per_file=3) as writer:
        writer.write([row(i) for i in range(2)])
        writer.write([row(i) for i in range(2, 8)])
    assert [part.num_rows for part in open_run(tmp_path).parts] == [3, 3, 2]


def test_row_groups_are_bounded_by_tokens(tmp_path):
    lengths = [4, 4, 4, 30, 1, 0, 8]
    with RolloutWriter(tmp_path, max_tokens_per_group=8) as writer:
        writer.write([row(i, token_ids=[7] * n) for i, n in enumerate(lengths)])
    metadata = pq.ParquetFile(tmp_path / "rollouts" / "part-000000.parquet").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [2, 1, 1, 2, 1]


def test_encoding_of_log_probs(tmp_path):
    with RolloutWriter(tmp_path) as writer:
        writer.write([row(0, logp_theta=[-0.5, -1.25], token_ids=[1, 2])])
    parquet = pq.ParquetFile(tmp_path / "rollouts" / "part-000000.parquet")
    group = parquet.metadata.row_group(0)
    chunks = {group.column(i).path_in_schema.split(".")[0]: group.column(i) for i in range(group.num_columns)}
    assert "BYTE_STREAM_SPLIT" in chunks["logp_theta"].encodings
    assert chunks["logp_theta"].compression == "ZSTD"
    assert chunks["logp_theta"].physical_type == "FLOAT"
    assert all(field.equals(arrow_schema().field(field.name)) for field in parquet.schema_arrow)


def test_a_column_that_comes_later_starts_a_file_and_none_is_lost(tmp_path):
    with RolloutWriter(tmp_path, max_tokens_per_group=1) as writer:
        writer.write([row(0)])
        writer.write([row(1, correct=True)])
        writer.write([row(2, token_ids=[1, 2])])
        writer.write([row(3)])
        writer.write([row(4, finish_reason="stop", token_ids=[3, 4])])
    run = open_run(tmp_path)
    table = stream_table(run)
    assert table["sample_index"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["correct"].to_pylist() == [None, True, None, None, None]
    assert table["token_ids"].to_pylist() == [None, None, [1, 2], None, [3, 4]]
    assert table["finish_reason"].to_pylist() == [None, None, None, None, "stop"]
    assert "advantage" not in {name for part in run.parts for name in part.types}


def test_log_probs_take_few_bytes_a_token(tmp_path):
    rng = np.random.default_rng(0)
    tokens = 60_000
    theta = -rng.exponential(0.3, tokens).astype(np.float32)
    with RolloutWriter(tmp_path) as writer:
        for i, part in enumerate(np.split(np.arange(tokens), 60)):
            logps = dict.fromkeys(("logp_theta", "logp_old", "logp_ref"), theta[part])
            writer.write([row(i, token_ids=rng.zipf(1.3, 1000).clip(max=150_000), **logps)])
    (file,) = open_run(tmp_path).files
    assert file.size / tokens < 14


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"reward": ...}, MissingColumn, "'reward'"),
        ({"group_id": ...}, MissingColumn, "'group_id'"),
        ({"step": None}, BadLog, "row 1: 'step' is null"),
        ({"logp_thetas": [1.0]}, UnknownName, "Did you mean 'logp_theta'"),
        ({"reward": "good"}, BadLog, "row 1: 'reward' = 'good'"),
        ({"step": 1.5}, BadLog, "row 1: 'step' = 1.5"),
        ({"token_ids": [1, 2.5]}, BadLog, "row 1: 'token_ids' = [1, 2.5]"),
        ({"token_ids": 3}, BadLog, "row 1: 'token_ids' = 3"),
        ({"loss_mask": [0, 2]}, BadLog, "row 1: 'loss_mask'"),
        (
            {"token_ids": [1, 2], "logp_old": [-1.0]},
            BadLog,
            "row 1: 'logp_old' has 1 values and 'token_ids' has 2",
        ),
        ({"response": "\ud800"}, BadLog, "row 1: 'response'"),
    ],
)
def test_rows_that_do_not_fit_are_refused_whole(tmp_path, change, error, said):
    bad = row(1, **{name: value for name, value in change.items() if value is not ...})
    first = row(0)
    for name, value in change.items():
        if value is ...:
            del bad[name], first[name]
    with RolloutWriter(tmp_path) as writer:
        with pytest.raises(error, match=re.escape(said)) as caught:
            writer.write([first, bad])
        assert "\n" not in str(caught.value)
        writer.write([row(5)])
    assert open_run(tmp_path).responses(["sample_index"])["sample_index"].to_pylist() == [5]


def test_rows_are_numbered_over_all_writes(tmp_path):
    with RolloutWriter(tmp_path) as writer:
        writer.write([row(0), row(1)])
        with pytest.raises(BadLog, match="row 2: 'step' is null"):
            writer.write([row(0, step=None)])


def test_lists_arrays_tensors_and_tables(tmp_path):
    with RolloutWriter(tmp_path) as writer:
        writer.write([row(0, logp_old=[-0.5, -1], loss_mask=[1, 0], correct=1, reward_components={"a": 1})])
        writer.write([row(np.int64(1), logp_old=np.array([-0.5, -1.0]), loss_mask=np.array([True, False]))])
        writer.write([row(2, logp_old=torch.tensor([-0.5, -1.0]), loss_mask=torch.tensor([1, 0]))])
        writer.write(pa.Table.from_pylist([row(3, logp_old=[-0.5, -1.0], loss_mask=[1, 0])]))
        writer.write(pa.RecordBatch.from_pylist([row(4, logp_old=[-0.5, -1.0], loss_mask=[True, False])]))
        writer.write([])
    table = stream_table(open_run(tmp_path))
    assert table["logp_old"].to_pylist() == [[-0.5, -1.0]] * 5
    assert table["loss_mask"].to_pylist() == [[True, False]] * 5
    assert table["sample_index"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["reward_components"].to_pylist()[0] == [("a", 1.0)]


def test_prompt_id_is_taken_from_the_prompt(tmp_path):
    rows = [
        {k: v for k, v in row(i, prompt=p).items() if k != "prompt_id"} for i, p in enumerate(["a", "b", "a"])
    ]
    with RolloutWriter(tmp_path) as writer:
        writer.write(rows)
    found = open_run(tmp_path).responses(["prompt_id"])["prompt_id"].to_pylist()
    assert found == [hash_prompt(p) for p in ("a", "b", "a")]


def test_hash_of_a_prompt_is_the_same_everywhere():
    assert hash_prompt("2 + 2 = ?") == "75c82e1127100f37"
    assert hash_prompt("a") != hash_prompt("b")
    assert hash_prompt("\ud800") != hash_prompt("?")


def test_manifest_is_written_once(tmp_path):
    given = {"group_size": 4, "config": {"beta": float("nan"), "names": ["ü"]}}
    for _ in range(2):
        with RolloutWriter(tmp_path / "r", manifest=given) as writer:
            writer.write([row()])
    run = open_run(tmp_path / "r")
    assert (run.run_id, run.manifest.group_size, run.manifest.declared) == ("r", 4, True)
    assert json.loads((tmp_path / "r" / "run.json").read_text())["schema"] == "rlaudit.run.v1"
    with pytest.raises(BadManifest, match="differs in group_size"):
        RolloutWriter(tmp_path / "r", manifest={**given, "group_size": 8})
    with RolloutWriter(tmp_path / "r") as writer:
        writer.write([row()])
    assert open_run(tmp_path / "r").num_rows == 3


def test_manifest_struct_and_dict_write_the_same(tmp_path):
    RolloutWriter(tmp_path / "a", manifest=Manifest(run_id="r", group_size=2)).close()
    RolloutWriter(tmp_path / "b", manifest={"run_id": "r", "group_size": 2}).close()
    a, b = (json.loads((tmp_path / name / "run.json").read_text()) for name in "ab")
    assert a == {**b, "length_unit": "tokens"}


@pytest.mark.parametrize("manifest", [{"group_size": 0}, {"schema": "other"}, {"config": {"a": object()}}])
def test_a_bad_manifest_is_refused_before_anything_is_written(tmp_path, manifest):
    with pytest.raises(BadManifest):
        RolloutWriter(tmp_path, manifest=manifest)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("prefix", ["", ".a", "_a", "a/b", "../a"])
def test_a_prefix_that_would_hide_or_move_the_file_is_refused(tmp_path, prefix):
    with pytest.raises(BadLog, match="prefix"):
        RolloutWriter(tmp_path, prefix=prefix)


def test_rows_beside_files_of_other_writers(tmp_path):
    write(tmp_path / "rollouts" / "other.parquet", columns(rewards=(0, 1)))
    with RolloutWriter(tmp_path) as writer:
        writer.write([row(7)])
    run = open_run(tmp_path)
    assert run.responses(["sample_index"])["sample_index"].to_pylist() == [0, 1, 7]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
FLOAT32 = st.floats(width=32, allow_nan=True, allow_infinity=True)
VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "double": st.floats(),
    "bool": st.booleans(),
    "string": TEXT,
    "timestamp[us, tz=UTC]": st.integers(0, 2**50),
    "list<int32>": st.integers(-(2**31), 2**31 - 1),
    "list<bool>": st.booleans(),
    "list<float>": FLOAT32,
    "map<string, double>": st.dictionaries(TEXT, st.floats(), max_size=2).map(lambda d: list(d.items())),
}


@st.composite
def rollout_rows(draw):
    rows = []
    for _ in range(draw(st.integers(0, 5))):
        length = draw(st.integers(0, 4))
        values = {}
        for column in COLUMNS:
            kind = VALUES[column.type]
            if column.name in TOKEN_LISTS:
                kind = st.lists(kind, min_size=length, max_size=length)
            values[column.name] = draw(st.none() | kind if column.nullable else kind)
        rows.append(values)
    return rows


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rollout_rows(), st.integers(1, 9), st.none() | st.integers(1, 3))
def test_what_is_written_is_what_is_read(rows, tokens, rows_per_file):
    schema = arrow_schema()
    written = pa.Table.from_pylist(rows, schema=schema)
    with tempfile.TemporaryDirectory() as directory:
        with RolloutWriter(directory, max_tokens_per_group=tokens, rows_per_file=rows_per_file) as writer:
            writer.write(rows)
        if not rows:
            return
        run = open_run(directory)
        expected = {name: written[name].to_pylist() for name in written.column_names}
        for column in COLUMNS:
            if column.default is not None:
                expected[column.name] = [column.default if v is None else v for v in expected[column.name]]
        read = stream_table(run, max_tokens=tokens)
        for name, values in expected.items():
            np.testing.assert_equal(read[name].to_pylist(), values, err_msg=name)
        assert_same_rows(view_table(run), read)
        scalars = [c.name for c in COLUMNS if not c.is_token_list]
        assert_same_rows(run.responses(), read.select(scalars))
