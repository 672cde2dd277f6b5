"""``rlaudit facts``: what it stores, what it says, and how it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import jsonschema
import numpy as np
import pytest
from synthetic import rollouts, write

from audit.errors import BadLog
from audit.facts.columns import CORE
from audit.facts.engines.local import compute
from audit.facts.store import facts
from audit.logs import open_run
from audit.logs.places import Unreachable
from audit.report.schemas import schema_of


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", str(tmp_path / "user-cache"))
    monkeypatch.delenv("RLAUDIT_CACHE", raising=False)


@pytest.fixture
def team(tmp_path):
    """Two small runs, and a directory that is none."""
    root = tmp_path / "team"
    for seed in range(2):
        write(root / f"run-{seed}", rollouts(seed=seed, steps=3, groups=2, size=3))
    (root / "notes").mkdir()
    return root


def test_a_directory_is_computed_once_and_then_reused(rlaudit, team) -> None:
    first = rlaudit("facts", team)
    assert (first.code, first.err) == (0, "")
    assert [line[:5] for line in first.out.splitlines() if line[0] != " "] == ["run-0", "run-1"]
    assert max(map(len, first.out.replace(str(team), "team").splitlines())) <= 80
    assert "run-0: 36 responses" in first.out
    assert "1 file: 1 computed, 0 reused" in first.out
    assert str(team / "run-1" / ".rlaudit") in first.out
    tokens = sum(len(row["token_ids"]) for row in rollouts(seed=0, steps=3, groups=2, size=3))
    assert f"{tokens:,} tokens read" in first.out
    second = rlaudit("facts", team)
    assert second.out.count("0 computed, 1 reused") == 2
    assert second.out.count(" 0 tokens read") == 2


def test_json_says_the_same(rlaudit, team) -> None:
    (found,) = json.loads(rlaudit("facts", team / "run-0", "--json").out)["runs"]
    assert found["computed"] == found["files"] == 1
    assert (found["rows"], found["run_id"], found["not_stored"]) == (36, "run-0", "")
    assert found["stored"] == str(team / "run-0" / ".rlaudit")
    assert found["tokens_per_second"] == pytest.approx(found["tokens"] / found["seconds"])
    (again,) = json.loads(rlaudit("facts", team / "run-0", "--json").out)["runs"]
    assert (again["computed"], again["tokens"], again["tokens_per_second"]) == (0, 0, None)


def test_what_is_stored_is_what_the_engine_computes(rlaudit, team) -> None:
    rlaudit("facts", team)
    run = open_run(team / "run-0")

    def refuse(*_, **__):
        raise AssertionError

    stored = facts(run, CORE, engine=refuse)
    ((_, computed),) = compute(run.parts, CORE, device="cpu")
    for name in CORE:
        np.testing.assert_array_equal(stored[name].to_numpy(), computed[name].to_numpy(), err_msg=name)


def test_a_run_that_cannot_be_read_is_named_and_left_out(rlaudit, team) -> None:
    (team / "bad" / "rollouts").mkdir(parents=True)
    (team / "bad" / "rollouts" / "x.parquet").write_text("not Parquet, but long enough")
    done = rlaudit("facts", team, "--json")
    assert done.code == 0
    assert "bad: left out" in done.err
    report = json.loads(done.out)
    jsonschema.validate(report, schema_of("facts"))
    assert len(report["runs"]) == 2
    assert [one["path"] for one in report["broken"]] == [str(team / "bad")]
    alone = rlaudit("facts", team / "bad")
    assert alone.code == 2
    assert alone.out == ""
    assert "no readable Parquet file" in alone.err
    assert alone.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no/such/run",), "no/such/run: no such file or directory"),
        (("x", "--address", "auto"), "add --engine ray"),
        (("x", "--device", "tpu"), "tpu"),
        ((), "PATH"),
    ],
)
def test_wrong_usage_is_one_clear_line(rlaudit, arguments, said) -> None:
    done = rlaudit("facts", *arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_where_nothing_can_be_stored_the_line_says_so(rlaudit, team, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE", "user")
    (tmp_path / "user-cache").write_text("in the way")
    done = rlaudit("facts", team / "run-0")
    assert done.code == 0
    assert done.err.count("\n") == 1
    assert "are not stored" in done.err
    assert "not stored: it cannot be written to" in done.out


def test_storage_that_gives_no_answer_is_asked_once(rlaudit, monkeypatch) -> None:
    asked = []

    def silent(path):
        asked.append(path)
        raise Unreachable(f"{path}: the storage cannot be reached")

    monkeypatch.setattr("audit.importers.open_run", silent)
    monkeypatch.setattr("audit.logs.places.is_directory", silent)
    done = rlaudit("facts", "memory://bucket/run")
    assert (done.code, done.err.count("\n"), len(asked)) == (2, 1, 1)


def test_an_engine_s_error_is_that_run_s(rlaudit, team, monkeypatch) -> None:
    from audit.facts.engines import local

    def broken(*_, **__):
        raise BadLog("it is \x1b[2J broken")

    monkeypatch.setattr(local, "compute", broken)
    done = rlaudit("facts", team)
    assert done.code == 2
    assert done.err.count("\\x1b[2J broken") == 2
    assert done.err.endswith("none of 2 runs can be read.\n")


def test_torch_is_not_imported(team) -> None:
    shutil.rmtree(team / "run-1")
    code = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); "
        "from audit.cli import main; main(sys.argv[1:])"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, "facts", str(team)],
            capture_output=True,
            text=True,
            env=os.environ,
            check=True,
            timeout=60,
        )
        assert done.stdout.endswith("False\n")


def test_a_terminal_sees_a_bar_and_the_same_line(rlaudit, team, monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = rlaudit("facts", team / "run-0")
    assert done.code == 0
    assert "1 computed" in done.out
