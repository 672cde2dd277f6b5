"""Logs in object storage: S3 by a real client against a server on this machine, and fsspec's memory://."""

from __future__ import annotations

import importlib.util
import pickle
import re
import shutil
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest
from log_samples import assert_same_rows, columns, stream_table, view_table, write
from synthetic import centred, rollouts, standardised, with_advantages
from synthetic import write as write_run

from audit.analyses.directory import summarise_path
from audit.analyses.explain import explain
from audit.cli import main
from audit.errors import AuditError, BadLog
from audit.importers import find_runs, open_run
from audit.logs import catalogue, parquet_part, places
from audit.logs.places import is_remote, to_place
from audit.logs.validate import validate
from audit.report.as_json import as_json


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Keep what is remembered of remote logs out of the user's own cache."""
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def s3():
    """A client of an S3 server on this machine, and the settings under which rlaudit finds it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    patch = pytest.MonkeyPatch()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }.items():
        patch.setenv(name, value)
    yield fsspec.filesystem("s3", use_listings_cache=False, skip_instance_cache=True)
    patch.undo()
    server.stop()


@pytest.fixture(params=["memory", "s3"])
def store(request):
    """A fresh bucket of each kind of storage: its address, and a client for it."""
    bucket = f"b{uuid.uuid4().hex}"
    if request.param == "memory":
        yield f"memory://{bucket}", fsspec.filesystem("memory")
        return
    system = request.getfixturevalue("s3")
    system.mkdir(bucket)
    yield f"s3://{bucket}", system


def put(system, folder: Path, address: str) -> str:
    """Copy a folder file by file."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = f"{address}/{file.relative_to(folder).as_posix()}".split("://")[1]
            system.pipe_file(name if address.startswith("s3") else f"/{name}", file.read_bytes())
    return address


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two small runs on this machine."""
    root = tmp_path_factory.mktemp("two")
    small = {"steps": 3, "epochs": 1, "groups": 3, "size": 4}
    write_run(root / "a", with_advantages(rollouts(**small), standardised(0, 0.0)), "grpo")
    write_run(root / "b", with_advantages(rollouts(seed=1, **small), centred), "dr_grpo")
    return root


def test_the_same_rows_and_answers_as_from_this_machine(store, two):
    address, system = store
    put(system, two, f"{address}/runs")
    assert [entry.run_id for entry in find_runs(f"{address}/runs")] == ["a", "b"]
    here, there = open_run(two / "a"), open_run(f"{address}/runs/a")
    assert (there.run_id, there.columns, there.num_rows) == (here.run_id, here.columns, here.num_rows)
    assert_same_rows(stream_table(here), stream_table(there))
    assert_same_rows(view_table(here), view_table(there))
    assert validate(there) == validate(here)
    assert as_json(summarise_path(to_place(f"{address}/runs"))) == as_json(summarise_path(two))
    explained = explain(there, open_run(f"{address}/runs/b"))
    assert as_json(explained) == as_json(explain(here, open_run(two / "b")))


def done(*arguments: str) -> None:
    """Call the command line, which must succeed."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert not end.value.code


def test_verbs_on_an_address_print_what_they_print_here(s3, two, capsys, tmp_path):
    s3.mkdir("verbs")
    put(s3, two, "s3://verbs/runs")
    out = tmp_path / "w.parquet"
    for verb in (["summary"], ["summary", "/a"], ["check", "/a"], ["length", "/a"], ["facts"]):
        said = []
        for root in (two, "s3://verbs/runs"):
            done(verb[0], f"{root}{''.join(verb[1:])}", "--json")
            said.append(re.sub(r'"(path|stored|seconds|tokens_per_second)": .*', "", capsys.readouterr().out))
        assert said[0].replace(str(two), "s3://verbs/runs") == said[1]
        assert len(said[0]) > 100
    done("weights", "s3://verbs/runs/a", "-o", str(out))
    assert pq.read_table(out).num_rows == 36


def test_one_file_a_foreign_log_and_a_whole_bucket(store, two):
    address, system = store
    put(system, two / "a", address)
    sample = Path(__file__).parents[2] / "sample_logs" / "trl_completions"
    put(system, sample, f"{address}/other/trl_completions")
    (file,) = open_run(address).files
    assert open_run(str(file.path)).num_rows == open_run(address).num_rows == 36
    assert open_run(address).run_id == "a"
    assert as_json(summarise_path(to_place(f"{address}/other/trl_completions/completions"))) == as_json(
        summarise_path(sample / "completions")
    )


def test_what_lies_in_a_run_is_sorted_out_as_on_this_machine(store, tmp_path):
    address, system = store
    for name in ("a", ".b", "_c", "metrics/d", ".cache/e", "step10/f", "step2/f"):
        write(tmp_path / f"{name}.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for name, content in {
        "half.parquet": whole[: len(whole) // 2],
        "empty.parquet": b"",
        "short.parquet": b"PAR1",
        "text.parquet": b"step,reward\n1,0.5\n",
        "torn.parquet": whole[:-40] + b"\xff" * 32 + whole[-8:],
        "x.parquet.tmp-1": b"PAR1",
        "notes.txt": b"hello",
    }.items():
        (tmp_path / name).write_bytes(content)
    here, there = open_run(tmp_path), open_run(put(system, tmp_path, f"{address}/run"))
    assert [f.name for f in there.files] == [f.name for f in here.files]
    assert [f.name for f in there.files] == ["a.parquet", "step2/f.parquet", "step10/f.parquet"]
    said = {skip.path.name: skip.reason.split(":")[0] for skip in there.skipped}
    assert said == {skip.path.name: skip.reason.split(":")[0] for skip in here.skipped}
    assert said["half.parquet"] == said["short.parquet"] == said["x.parquet.tmp-1"] == "being written"
    assert (said["text.parquet"], said["torn.parquet"]) == ("not Parquet", "damaged footer")


def test_a_file_that_vanishes_or_changes_is_noticed(store, tmp_path):
    address, system = store
    for step in (1, 2):
        write(tmp_path / f"{step}.parquet", columns(step))
    put(system, tmp_path, f"{address}/run")
    run = open_run(f"{address}/run")
    # Of the same size and, in S3, within the same second: only the ETag tells.
    write(tmp_path / "2.parquet", columns(3))
    assert (tmp_path / "2.parquet").stat().st_size == run.files[1].size
    (tmp_path / "1.parquet").unlink()
    put(system, tmp_path, f"{address}/run")
    with pytest.raises(BadLog, match=r"2\.parquet: the file was changed after the run was opened"):
        run.responses()
    run = open_run(f"{address}/run")
    assert run.responses(["step"])["step"].to_pylist() == [1, 1, 3, 3]
    system.rm(places.store_of(run.files[0].path)[1])
    with pytest.raises(BadLog, match=r"1\.parquet"):
        run.responses()
    assert open_run(f"{address}/run").num_rows == 2


def test_a_file_that_vanishes_while_the_run_is_opened(store, tmp_path, monkeypatch):
    address, system = store
    for step in (1, 2):
        write(tmp_path / f"{step}.parquet", columns(step))
    put(system, tmp_path, f"{address}/run")
    listed = catalogue.list_files

    def and_then_gone(*arguments):
        found = listed(*arguments)
        system.rm(places.store_of(found[0][0].path)[1])
        return found

    monkeypatch.setattr(catalogue, "list_files", and_then_gone)
    run = open_run(f"{address}/run")
    assert [file.name for file in run.files] == ["2.parquet"]
    assert [skip.reason for skip in run.skipped] == ["removed while the run was opened"]


@pytest.mark.parametrize("name", ["run", "a run", "it's run[1] *#", "läufe/ü", "100%25"])
def test_odd_names_slashes_and_other_processes(store, tmp_path, name):
    address, system = store
    write(tmp_path / "rollouts" / "step=1" / "a.parquet")
    put(system, tmp_path, f"{address}/{name}")
    for text in (f"{address}/{name}", f"{address}/{name}/"):
        run = pickle.loads(pickle.dumps(open_run(text)))
        assert run.run_id == name.rsplit("/", 1)[-1]
        assert run.responses(["reward"])["reward"].to_pylist() == [0.0, 0.5]
    assert [entry.run_id for entry in find_runs(address)] == [run.run_id]


def test_a_second_opening_asks_for_no_footer(store, two, monkeypatch):
    address, system = store
    put(system, two / "a", f"{address}/a")
    first = open_run(f"{address}/a")
    assert first.columns
    monkeypatch.setattr(parquet_part, "open_parquet", None)
    second = open_run(f"{address}/a")
    assert (second.columns, second.num_rows) == (first.columns, first.num_rows)


def test_only_the_columns_that_are_asked_for_travel(s3, tmp_path, monkeypatch):
    s3.mkdir("ranges")
    table = columns(step=1, rewards=[0.5] * 2000, response=[uuid.uuid4().hex * 40 for _ in range(2000)])
    file = write(tmp_path / "a.parquet", table, row_group_size=500, compression="none", use_dictionary=False)
    put(s3, tmp_path, "s3://ranges")
    run = open_run("s3://ranges/a.parquet")
    fetched = []
    from s3fs import S3File

    whole = S3File._fetch_range

    def ranged(self, start, end):
        fetched.append(end - start)
        return whole(self, start, end)

    monkeypatch.setattr(S3File, "_fetch_range", ranged)
    assert run.responses(["reward"])["reward"].to_pylist() == [0.5] * 2000
    assert 0 < sum(fetched) < file.stat().st_size / 5


def refused(capsys, *arguments: object) -> str:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert (end.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    return said.err


@pytest.mark.parametrize("verb", ["summary", "check", "length"])
def test_a_wrong_bucket_is_one_line(s3, capsys, verb):
    assert "no such file, directory or bucket" in refused(capsys, verb, "s3://nobody-has-this/runs")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s4://bucket/run", "unknown storage 's4://'. Did you mean 's3://'?"),
        ("http://host/run", "unknown storage 'http://'"),
        ("s3:/bucket/run", "Did you mean 's3://bucket/run'?"),
        ("s3://", "names no bucket"),
    ],
)
def test_a_wrong_address_is_one_line(capsys, address, said):
    assert said in refused(capsys, "summary", address)
    with pytest.raises(AuditError):
        to_place(address)


def test_no_credentials_access_denied_and_no_server_are_one_line_each(s3, capsys, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("HOME", str(tmp_path))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        assert "no credentials for this storage" in refused(capsys, "summary", "s3://bucket/run")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert "the storage cannot be reached" in refused(capsys, "summary", "s3://bucket/run")
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.mark.parametrize(
    ("error", "said", "again"),
    [
        (PermissionError("Forbidden"), "access denied: Forbidden", False),
        (FileNotFoundError("x"), "no such file, directory or bucket", False),
        (TimeoutError(), "the storage cannot be reached: TimeoutError", True),
        (ConnectionResetError("peer\nmore"), "the storage cannot be reached: peer", True),
        (RuntimeError("odd"), "cannot be read: odd", False),
    ],
)
def test_what_a_client_raises_is_one_line_and_tells_what_may_pass(error, said, again):
    made = places.storage_error(Path("run"), error)
    assert str(made).startswith(f"run: {said}")
    assert "\n" not in str(made)
    assert isinstance(made, places.Unreachable) is again


def test_a_server_that_never_answers_does_not_hang(s3, capsys, monkeypatch):
    monkeypatch.setattr(places, "ANSWER_WITHIN", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        assert "no answer within 0.5 seconds" in refused(capsys, "summary", "s3://bucket/run")
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.mark.parametrize(
    ("address", "extra"), [("s3://b/r", "s3"), ("gs://b/r", "gcs"), ("az://b/r", "azure")]
)
def test_a_package_that_is_not_installed_names_the_extra(monkeypatch, address, extra):
    known = importlib.util.find_spec
    monkeypatch.setattr(places, "find_spec", lambda name: None if name.endswith("fs") else known(name))
    with pytest.raises(AuditError, match=rf"pip install 'rlaudit\[{extra}\]'"):
        to_place(address)


def test_results_are_not_written_to_storage(capsys, two):
    for out in ("s3://bucket/w.parquet", "memory://bucket/w.parquet"):
        assert "this machine only" in refused(capsys, "weights", two / "a", "-o", out)
    assert "this machine only" in refused(capsys, "explain", two / "a", two / "b", "-o", "s3://bucket/r.html")


def test_local_names_stay_local(tmp_path, two, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(two / "a", tmp_path / "s3:" / "bucket")
    for address in (f"file://{two / 'a'}", "s3:/bucket", "s3://bucket", two / "a"):
        assert not is_remote(to_place(address))
        assert open_run(address).num_rows == 36
    assert to_place("c:/x") == Path("c:/x")


def test_storage_clients_are_not_imported_for_local_logs(two):
    code = f"""
import sys
from audit.logs import open_run
open_run({str(two / "a")!r}).responses()
print({{"fsspec", "s3fs", "upath", "botocore"}} & set(sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "set()"
