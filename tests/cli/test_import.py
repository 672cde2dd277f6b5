"""``rlaudit import``: what it makes, what it says, and what it refuses."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import validate

from audit.importers import IMPORTERS, open_run
from audit.report.schemas import schema_of

ROWS = [
    {"step": s, "task": {"text": f"q{p}"}, "output": "a", "grade": i % 2, "logprobs": [-1.0]}
    for s in (1, 2)
    for p in (0, 1)
    for i in range(4)
]
TRL = Path(__file__).parents[2] / "sample_logs" / "trl_completions"
FLAGS = ("--column", "prompt=task.text", "--column", "reward=grade")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + "no JSON\n")
    return path


def test_what_is_read_made_and_rejected_is_printed(rlaudit, log, tmp_path) -> None:
    done = rlaudit("import", log, tmp_path / "run", *FLAGS)
    assert (done.code, done.err) == (0, "")
    for said in (
        "generic format",
        "read 17 lines: 16 rows, 1 rejected (line is not JSON: 1)",
        "4 groups, most often of 4; 2 steps",
        "tier 2 of 6: lengths or text",
        "logprobs (logp_sampler, logp_old or logp_theta?)",
        f"written to {tmp_path / 'run'}",
    ):
        assert said in " ".join(done.out.split()), said
    run = open_run(tmp_path / "run")
    assert (run.format, run.num_rows, run.run_id) == ("rlaudit", 16, "log")
    again = rlaudit("import", log, tmp_path / "run", *FLAGS)
    assert again.out == done.out
    assert rlaudit("check", tmp_path / "run").code == 0


def test_json_follows_its_schema(rlaudit, log, tmp_path) -> None:
    found = json.loads(rlaudit("import", log, tmp_path / "run", *FLAGS, "--json").out)
    validate(found, schema_of("import"))
    assert found["read"] == found["rows"] + sum(found["rejected"].values()) == 17


def test_a_mapping_file_and_flags_on_top_of_it(rlaudit, log, tmp_path) -> None:
    toml = tmp_path / "map.toml"
    toml.write_text('group_size = 2\n[columns]\nprompt = "task.text"\nreward = "step"\n')
    done = rlaudit("import", log, tmp_path / "run", "--mapping", toml, "--column", "reward=grade", "--json")
    assert json.loads(done.out)["groups"] == 8
    assert set(open_run(tmp_path / "run").responses(["reward"])["reward"].to_pylist()) == {0.0, 1.0}
    assert open_run(tmp_path / "run").manifest.group_size == 2
    other = rlaudit(
        "import", log, tmp_path / "b", "--mapping", toml, "--grouping", "prompt", "--group-size", "4"
    )
    assert "4 groups, most often of 4" in other.out


def test_a_mapping_beside_the_log_serves_every_command(rlaudit, log) -> None:
    assert rlaudit("summary", log).code == 2
    (log.parent / "rlaudit.toml").write_text('[columns]\nprompt = "task.text"\nreward = "grade"\n')
    for verb in ("summary", "check", "length", "groups"):
        done = rlaudit(verb, log)
        assert done.code == 0, (verb, done.err)


@pytest.fixture
def odd_parquet(tmp_path):
    """A folder with a Parquet file of which no name is known."""
    path = tmp_path / "odd" / "log.parquet"
    path.parent.mkdir()
    pq.write_table(
        pa.table({"it": [0, 0], "task": ["q", "q"], "grade": [0.0, 1.0], "toks": [[1, 2], [3]]}), path
    )
    return path


NAMED = ("prompt=task", "reward=grade", "step=it", "token_ids=toks")


@pytest.mark.parametrize("folder", [False, True])
def test_columns_that_were_said_need_no_format(rlaudit, odd_parquet, tmp_path, folder) -> None:
    path = odd_parquet.parent if folder else odd_parquet
    refused = rlaudit("import", path, tmp_path / "run")
    assert refused.code == 2
    assert "It has it, task, grade, toks. Say which is which, as in: rlaudit import" in refused.err
    assert "rlaudit.toml with the lines '[columns]' and" in refused.err
    flags = [word for pair in NAMED for word in ("--column", pair)]
    done = rlaudit("import", path, tmp_path / "run", *flags, "--json")
    assert (done.code, json.loads(done.out)["format"]) == (0, "generic")
    run = open_run(tmp_path / "run")
    assert run.responses(["reward"])["reward"].to_pylist() == [0.0, 1.0]
    # Tokens were named, so lengths are of tokens though no other name told so.
    assert run.manifest.length_unit == "tokens"


def test_a_run_of_the_schema_is_said_to_be_one(rlaudit, log, tmp_path) -> None:
    rlaudit("import", log, tmp_path / "run", *FLAGS)
    for path in (tmp_path / "run", next((tmp_path / "run" / "rollouts").iterdir())):
        done = rlaudit("import", path, tmp_path / "again")
        assert (done.code, "is a run of the rollout schema already; open it as it is." in done.err) == (
            2,
            True,
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "import takes SRC and DEST"),
        (("none.jsonl", "run"), "no such file or directory"),
        (("log.jsonl", "run"), "has no column for prompt"),
        (("log.jsonl", "run", "--column", "reward"), "expected NAME=SOURCE"),
        (("log.jsonl", "run", "--column", "rewrd=grade"), "Did you mean 'reward'"),
        (("log.jsonl", "run", "--column", "reward=grede"), "Did you mean 'grade'"),
        (("log.jsonl", "run", "--format", "generik"), "Did you mean 'generic'"),
        (("log.jsonl", "run", "--format", "trl"), "is no trl log"),
        (("log.jsonl", "run", "--format", "trl", "--column", "reward=grade"), "is no trl log"),
        (("log.jsonl", "run", "--grouping", "block"), "Did you mean 'blocks'"),
        (("log.jsonl", "run", "--mapping", "none.toml"), "No such file"),
        (("log.jsonl", "."), "logs are never changed"),
        (("log.jsonl", "full", *FLAGS), "holds no import"),
        (("log.jsonl", "log.jsonl"), "is not a directory"),
        (("odd.bin", "run"), "no format takes this"),
        (("logs", "run"), "holds logs, but is none itself; import one of: logs/a, logs/b."),
        (("log.jsonl", "s3://bucket/run"), "written to this machine"),
    ],
)
def test_what_cannot_be_is_one_line(rlaudit, log, tmp_path, monkeypatch, arguments, said) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "odd.bin").write_bytes(b"\x00")
    for name in "ab":
        shutil.copytree(TRL, tmp_path / "logs" / name)
    done = rlaudit("import", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert said in done.err
    assert [f.name for f in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_a_folder_of_foreign_logs_names_them(rlaudit, tmp_path) -> None:
    shutil.copytree(TRL, tmp_path / "a")
    alone = rlaudit("length", tmp_path)
    assert (alone.code, alone.out) == (2, "")
    assert "holds one run below it: a. Name it." in alone.err
    shutil.copytree(TRL, tmp_path / "b")
    assert "holds 2 runs, not one: a, b. Name one of them." in rlaudit("length", tmp_path).err


def test_text_of_a_log_cannot_act_on_a_terminal(rlaudit, tmp_path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"prompt": "p", "reward": 1, "\x1b[31mred\x07": 1}) + "\n")
    done = rlaudit("import", path, tmp_path / "run")
    assert "red" in done.out
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


def test_formats_lists_the_registry(rlaudit) -> None:
    done = rlaudit("import", "--formats")
    assert done.code == 0
    for importer in IMPORTERS:
        assert f"\n{importer.name}  " in f"\n{done.out}"
    listed = json.loads(rlaudit("import", "--formats", "--json").out)
    assert [each["name"] for each in listed] == [importer.name for importer in IMPORTERS]


def test_a_bar_is_shown_on_a_terminal_once_it_takes_long(log, tmp_path) -> None:
    code = (
        "import sys, audit.cli.import_progress as p, audit.importers.store as s\n"
        "p.MOMENT, s.LUMP = 0.0, 200\n"
        "from audit.cli import main\nmain(sys.argv[1:])"
    )
    ours, theirs = pty.openpty()
    arguments = ["import", log, tmp_path / "run", *FLAGS]
    child = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    out, _ = child.communicate()
    os.close(ours)
    assert child.returncode == 0
    assert b"importing log.jsonl" in shown
    assert b"read 17 lines" in out
    assert b"importing" not in out
