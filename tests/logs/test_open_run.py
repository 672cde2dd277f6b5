"""Opening one run and finding many: what is read, what is refused, and in which words."""

import json
import os
import pickle
import subprocess
import sys

import pyarrow as pa
import pytest
from log_samples import columns, write

from audit.errors import AuditError, BadLog, BadManifest, MissingColumn, UnknownName
from audit.logs import Manifest, Run, catalogue, find_runs, open_run
from audit.logs.catalogue import FOREIGN_OPENERS


@pytest.fixture
def foreign():
    """A list of openers that is put back afterwards."""
    before = list(FOREIGN_OPENERS)
    yield FOREIGN_OPENERS
    FOREIGN_OPENERS[:] = before


def refused(path, kind=BadLog):
    with pytest.raises(kind) as caught:
        open_run(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_run_without_run_json(tmp_path):
    write(tmp_path / "my-run" / "rollouts" / "a.parquet", columns(length=[3, 4]))
    run = open_run(str(tmp_path / "my-run"))
    assert (run.run_id, run.format, run.num_rows, run.tier) == ("my-run", "rlaudit", 2, 2)
    assert not run.manifest.declared
    assert run.columns == {"step", "prompt_id", "group_id", "sample_index", "reward", "length"}
    assert [file.name for file in run.files] == ["rollouts/a.parquet"]
    assert (run.skipped, run.rejected, run.notes) == ((), {}, ())


def test_a_single_file_knows_the_run_that_it_lies_in(tmp_path):
    path = write(tmp_path / "r" / "rollouts" / "x" / "a.parquet")
    assert open_run(path).run_id == "a"
    (tmp_path / "r" / "run.json").write_text(
        '{"schema": "rlaudit.run.v1", "run_id": "named", "group_size": 2}'
    )
    run = open_run(path)
    assert (run.run_id, run.manifest.group_size, run.num_rows) == ("named", 2, 2)


def test_missing_path(tmp_path):
    assert "no such file" in refused(tmp_path / "nothing")


def test_directory_without_parquet(tmp_path):
    assert "no readable Parquet file below it" in refused(tmp_path)


def test_directory_with_metrics_only(tmp_path):
    write(tmp_path / "metrics" / "a.parquet", {"step": [1], "name": ["loss"], "value": [0.5]})
    refused(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"), [("log.parquet", "not Parquet"), ("log.txt", "not Parquet"), ("log.csv", "prompt")]
)
def test_text_file(tmp_path, name, said):
    (tmp_path / name).write_text("step,reward\n1,0.5\n")
    assert said in refused(tmp_path / name)


def test_only_unfinished_files(tmp_path):
    whole = write(tmp_path / "rollouts" / "a.parquet").read_bytes()
    (tmp_path / "rollouts" / "a.parquet").write_bytes(whole[:-9])
    (tmp_path / "rollouts" / "b.parquet").write_bytes(b"")
    message = refused(tmp_path)
    assert "1 file: being written" in message
    assert "1 file: empty" in message


def test_unfinished_file_beside_whole_ones(tmp_path):
    whole = write(tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    run = open_run(tmp_path)
    assert run.num_rows == 2
    assert [(s.path.name, s.reason) for s in run.skipped] == [("b.parquet", "being written")]


def test_damaged_footer_is_skipped(tmp_path):
    whole = write(tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[:-40] + b"\xff" * 32 + whole[-8:])
    run = open_run(tmp_path)
    assert run.num_rows == 2
    assert run.skipped[0].reason.startswith("damaged footer: ")


def test_damaged_pages_are_one_clear_error(tmp_path):
    path = write(tmp_path / "a.parquet", columns(response=["x" * 4000, "y" * 4000]), compression="none")
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * (len(whole) // 2) + whole[4 + len(whole) // 2 :])
    with pytest.raises(BadLog, match=r"a\.parquet: cannot be read"):
        open_run(tmp_path).responses()


def test_log_without_rewards_names_the_closest_column(tmp_path):
    write(tmp_path / "a.parquet", {**columns(reward=None), "rewards": [1.0, 0.0]})
    message = refused(tmp_path, MissingColumn)
    assert "'reward'" in message
    assert "Did you mean 'rewards'?" in message


def test_every_missing_required_column_is_named(tmp_path):
    write(tmp_path / "a.parquet", columns(reward=None, group_id=None))
    message = refused(tmp_path, MissingColumn)
    assert "'group_id'" in message
    assert "Also missing: reward" in message


def test_impossible_type_names_file_column_found_and_expected(tmp_path):
    path = write(tmp_path / "a.parquet", columns(reward=["good", "bad"]))
    with pytest.raises(BadLog) as caught:
        open_run(tmp_path)
    for part in (str(path), "'reward'", "string", "double"):
        assert part in str(caught.value)


def test_column_given_twice(tmp_path):
    table = pa.table(columns())
    write(
        tmp_path / "a.parquet",
        pa.table([*table.columns, table["reward"]], names=[*table.column_names, "reward"]),
    )
    with pytest.raises(BadLog, match="'reward' appears 2 times"):
        open_run(tmp_path)


def test_file_of_something_else_beside_the_rollouts(tmp_path):
    write(tmp_path / "a.parquet")
    write(tmp_path / "prompts.parquet", {"prompt_id": ["p"], "prompt": ["2+2"]})
    run = open_run(tmp_path)
    assert run.num_rows == 2
    assert run.skipped[0].reason == "not rollouts: has neither step nor reward"


def test_several_runs_are_not_merged_into_one(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name / "rollouts" / "x.parquet")
    message = refused(tmp_path)
    assert "holds 2 runs, not one" in message
    assert "a, b" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("", "is empty"),
        ("[1]", "expected a JSON object, found list"),
        ('{"schema": "other"}', "schema is 'other'"),
        ('{"group_size": "eight"}', "group_size"),
        ('{"framework": {"version": "1"}}', "name"),
    ],
)
def test_bad_run_json(tmp_path, text, said):
    write(tmp_path / "a.parquet")
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(BadManifest, match=r"run\.json") as caught:
        open_run(tmp_path)
    assert said in str(caught.value)


def test_run_json_of_a_framework_with_nan_and_byte_order_mark(tmp_path):
    write(tmp_path / "a.parquet")
    text = '\ufeff{"run_id": "r", "grop_size": 8, "config": {"cap": Infinity, "x": NaN}}'
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    manifest = open_run(tmp_path).manifest
    assert manifest.config["cap"] == float("inf")
    assert (manifest.unknown, manifest.schema, manifest.group_size) == (("grop_size",), None, None)


@pytest.mark.parametrize("statistics", [True, False])
def test_columns_are_those_that_hold_a_value(tmp_path, statistics):
    lists = pa.list_(pa.float32())
    table = columns(
        logp_old=pa.array([[-1.0], None], lists),
        logp_ref=pa.array([None, None], lists),
        entropy=pa.nulls(2),
        value=pa.array([[], None], lists),
        correct=pa.array([None, None], pa.bool_()),
        epoch=pa.array([None, None], pa.int32()),
        finish_reason=pa.array([None, "stop"]).dictionary_encode(),
    )
    write(tmp_path / "a.parquet", pa.table(table), write_statistics=statistics)
    native = open_run(tmp_path)
    made = Run.from_table(tmp_path, "r", Manifest(run_id="r"), pa.table(table), format="made")
    for run in (native, made):
        assert run.columns - set(columns()) == {"logp_old", "value", "finish_reason"}


def test_batches_are_bounded_and_keep_the_order(tmp_path):
    lengths = [3, 0, 5, 9, 1, 1, 1, 4]
    lists = [list(range(n)) for n in lengths]
    write(
        tmp_path / "a.parquet",
        columns(rewards=[float(i) for i in range(8)], token_ids=lists, length=lengths),
        row_group_size=5,
    )
    run = open_run(tmp_path)
    for names in (["reward", "token_ids"], ["reward", "length"]):
        batches = list(run.batches(names, max_tokens=5))
        assert [r for b in batches for r in b["reward"].to_pylist()] == list(range(8))
        position = 0
        for batch in batches:
            tokens = sum(lengths[position : position + batch.num_rows])
            assert batch.num_rows == 1 or tokens <= 5
            position += batch.num_rows
        assert len(batches) < 8
    assert [b.num_rows for b in run.batches(["reward"])] == [5, 3]


def test_absent_columns_are_null_or_their_default(tmp_path):
    write(tmp_path / "a.parquet")
    run = open_run(tmp_path)
    (batch,) = run.batches(["epoch", "is_greedy", "update", "logp_ref"])
    assert batch.to_pydict() == {
        "epoch": [0, 0], "is_greedy": [False, False], "update": [None, None], "logp_ref": [None, None],
    }  # fmt: skip
    assert batch.schema.field("logp_ref").type == pa.list_(pa.float32())


def test_unknown_column_and_token_lists_in_responses(tmp_path):
    write(tmp_path / "a.parquet")
    run = open_run(tmp_path)
    with pytest.raises(UnknownName, match="Did you mean 'logp_theta'"):
        run.batches(["logp_thetas"])
    with pytest.raises(UnknownName):
        run.responses(["nothing"])
    with pytest.raises(AuditError, match="token list"):
        run.responses(["logp_theta"])
    assert "logp_theta" not in run.responses().column_names


def test_zero_rows(tmp_path):
    write(tmp_path / "a.parquet", pa.table(columns()).slice(0, 0))
    run = open_run(tmp_path)
    assert (run.num_rows, run.tier, run.columns) == (0, 0, frozenset())
    assert run.responses().num_rows == 0
    with run.connect() as connection:
        assert connection.execute("SELECT count(*) FROM rollouts").fetchone() == (0,)


def test_a_file_that_changes_after_opening_is_noticed(tmp_path):
    path = write(tmp_path / "a.parquet")
    run = open_run(tmp_path)
    write(path, columns(rewards=(7.0, 8.0, 9.0)))
    with pytest.raises(BadLog, match="changed after the run was opened"):
        run.responses()


def test_a_run_can_be_sent_to_another_process(tmp_path):
    write(tmp_path / "a.parquet")
    run = pickle.loads(pickle.dumps(open_run(tmp_path)))
    assert run.responses(["reward"])["reward"].to_pylist() == [0.0, 0.5]


def test_reading_leaves_the_log_as_it_was(tmp_path):
    write(tmp_path / "rollouts" / "a.parquet", columns(logp_old=[[-1.0], [-2.0]]))
    before = {p: p.stat().st_mtime_ns for p in [tmp_path, *tmp_path.rglob("*")]}
    run = open_run(tmp_path)
    run.responses()
    list(run.batches(["logp_old"]))
    with run.connect() as connection:
        connection.execute("SELECT * FROM rollouts").fetchall()
    assert {p: p.stat().st_mtime_ns for p in [tmp_path, *tmp_path.rglob("*")]} == before


def test_imported_rows(tmp_path):
    table = pa.table(columns(rewards=(1, 0), own=["a", "b"]))
    run = Run.from_table(
        tmp_path,
        "r",
        Manifest(run_id="r"),
        iter(table.to_batches()),
        format="made",
        rejected={"cut line": 1},
        notes=["groups were rebuilt"],
    )
    assert run.notes == ("groups were rebuilt",)
    assert (run.format, run.num_rows, run.tier, dict(run.rejected)) == ("made", 2, 1, {"cut line": 1})
    assert run.responses(["reward", "epoch"]).to_pydict() == {"reward": [1.0, 0.0], "epoch": [0, 0]}
    assert run.parts[0].unknown == ("own",)
    with pytest.raises(MissingColumn, match="reward"):
        Run.from_table(tmp_path, "r", Manifest(run_id="r"), table.drop_columns("reward"), format="made")


def test_foreign_logs_are_tried_only_after_the_native_one(tmp_path, foreign):
    def opener(path, listing):
        if not (path / "foreign.txt").exists():
            return None
        name = path.name
        return Run.from_table(path, name, Manifest(run_id=name), pa.table(columns()), format="made")

    foreign.append(opener)
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "foreign.txt").touch()
    write(tmp_path / "n" / "rollouts" / "a.parquet")
    (tmp_path / "n" / "foreign.txt").touch()
    assert open_run(tmp_path / "f").format == "made"
    assert open_run(tmp_path / "n").format == "rlaudit"
    assert [(e.run_id, e.run.format) for e in find_runs(tmp_path)] == [("f", "made"), ("n", "rlaudit")]


def test_a_run_json_alone_is_refused_with_its_own_error_where_no_importer_knows_the_rest(tmp_path, foreign):
    foreign.append(lambda path, listing: None)
    (tmp_path / "run.json").write_text('{"schema": "rlaudit.run.v1"}')
    refused(tmp_path)


def test_find_runs(tmp_path):
    for name in ("team/run10", "team/run2", "loose"):
        write(tmp_path / name / "rollouts" / "a.parquet")
    write(tmp_path / "team" / "run2" / "inner" / "rollouts" / "a.parquet")
    write(tmp_path / ".cache" / "rollouts" / "a.parquet")
    write(tmp_path / "stray.parquet")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "started").mkdir()
    (tmp_path / "started" / "run.json").write_text(json.dumps({"schema": "rlaudit.run.v1", "run_id": "s"}))
    os.symlink(tmp_path / "team", tmp_path / "team" / "loop")
    entries = find_runs(tmp_path)
    assert [str(e.path.relative_to(tmp_path)) for e in entries] == [
        "broken", "loose", "started", "team/run2", "team/run10",
    ]  # fmt: skip
    errors = {e.run_id: type(e.error) for e in entries if e.error is not None}
    assert errors == {"broken": BadManifest, "started": BadLog}
    assert all((e.run is None) != (e.error is None) for e in entries)


def test_find_runs_on_a_run_and_on_nothing(tmp_path):
    write(tmp_path / "r" / "rollouts" / "a.parquet")
    assert [e.run_id for e in find_runs(tmp_path / "r")] == ["r"]
    assert [e.run_id for e in find_runs(tmp_path / "r" / "rollouts")] == ["rollouts"]
    with pytest.raises(BadLog, match="not a directory"):
        find_runs(tmp_path / "nothing")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_no_utf_8_is_one_run_that_cannot_be_read(tmp_path):
    write(tmp_path / "a" / "rollouts" / "a.parquet")
    write(tmp_path / "b" / "rollouts" / "a.parquet")
    bad = tmp_path / os.fsdecode(b"r\xff")
    os.rename(tmp_path / "b", bad)
    entries = find_runs(tmp_path)
    assert [entry.error is None for entry in entries] == [True, False]
    with pytest.raises(BadLog, match="not valid UTF-8"):
        open_run(bad)


def test_a_folder_that_vanishes_while_it_is_looked_at_leaves_the_others(tmp_path, monkeypatch):
    for name in ("a", "b"):
        write(tmp_path / name / "rollouts" / "a.parquet")

    def opened(path):
        if path.name == "a":
            raise FileNotFoundError(2, os.strerror(2), str(path))
        return open_run(path)

    monkeypatch.setattr(catalogue, "open_run", opened)
    gone, there = find_runs(tmp_path)
    assert str(gone.error) == f"{tmp_path / 'a'}: {os.strerror(2)}."
    assert there.run is not None


def test_opening_logs_stays_light():
    code = "import audit.logs, sys; print({'duckdb', 'torch', 'polars'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "set()"
