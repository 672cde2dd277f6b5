"""``rlaudit cache``: what is kept, what of it is stale, and getting rid of exactly that."""

from __future__ import annotations

import json
import os
import shutil
import sys

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from synthetic import rollouts, write

from audit.facts.store import facts
from audit.logs import open_run
from audit.report.schemas import schema_of


def zeros(parts, names, **_):
    """An engine whose facts are all zero."""
    for place, part in enumerate(parts):
        yield place, pa.table({name: np.zeros(part.num_rows) for name in names})


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", str(tmp_path / "user-cache"))
    monkeypatch.delenv("RLAUDIT_CACHE", raising=False)
    return tmp_path / "user-cache"


@pytest.fixture
def team(tmp_path, monkeypatch):
    """A run that keeps its own facts, and one whose facts lie in the user's cache."""
    root = tmp_path / "team"
    for name, choice in (("own", "run"), ("user", "user")):
        write(root / name, rollouts(steps=2, groups=1, size=2))
        monkeypatch.setenv("RLAUDIT_CACHE", choice)
        facts(open_run(root / name), ["a", "b"], engine=zeros)
        monkeypatch.delenv("RLAUDIT_CACHE")
    return root


def report(done):
    assert done.code == 0, done.err
    shape = json.loads(done.out)
    jsonschema.validate(shape, schema_of("cache"))
    return shape


def files(root):
    return {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}


def test_it_finds_what_is_beside_the_logs_and_in_the_user_s_cache(rlaudit, team, own_cache) -> None:
    found = report(rlaudit("cache", team, "--json"))
    assert [log["log"] for log in found["logs"]] == [str(team / "own"), str(team / "user")]
    assert [(log["segments"], log["files"], log["facts"]) for log in found["logs"]] == [(1, 1, 2)] * 2
    kept = [files(team / "own" / ".rlaudit"), files(own_cache)]
    assert [log["bytes"] for log in found["logs"]] == [sum(sizes.values()) for sizes in kept]
    assert found["stale_bytes"] == 0
    assert found["user_cache"] == str(own_cache)
    assert [log["log"] for log in report(rlaudit("cache", "--json"))["logs"]] == [str(team / "user")]
    assert [log["log"] for log in report(rlaudit("cache", team / "user", "--json"))["logs"]] == [
        str(team / "user")
    ]
    text = rlaudit("cache", team).out
    assert "2 facts of 1 file in 1 segment, 0.1 MB" in text
    assert "2 logs, 2 segments" in text


def test_nothing_kept_is_no_failure_and_nothing_there_is(rlaudit, tmp_path) -> None:
    assert "0 logs, 0 segments, 0 MB" in rlaudit("cache").out
    assert "0 logs" in rlaudit("cache", tmp_path).out
    gone = rlaudit("cache", tmp_path / "gone")
    assert (gone.code, gone.out) == (2, "")
    assert "no such file or directory" in gone.err


def test_prune_removes_what_is_stale_and_keeps_the_rest(rlaudit, team) -> None:
    run = team / "own"
    whole = run / "rollouts" / "part-000000.parquet"
    shutil.copy(whole, run / "rollouts" / "part-000001.parquet")
    facts(open_run(run), ["a", "b"], engine=zeros)
    good = report(rlaudit("cache", run, "--json"))["bytes"]
    (run / "rollouts" / "part-000001.parquet").unlink()
    (run / ".rlaudit" / "facts" / "half.facts.7.tmp").write_bytes(bytes(5000))
    (run / ".rlaudit" / "facts" / "old.facts").write_bytes(bytes(3000))
    before = report(rlaudit("cache", run, "--json"))
    (segment,) = [size for path, size in files(run / ".rlaudit").items() if len(path.stem) == 32]
    assert before["stale_bytes"] == 8000 + segment // 2
    pruned = report(rlaudit("cache", run, "--prune", "--json"))
    assert pruned["stale_bytes"] == 0
    assert pruned["freed"] == before["bytes"] - pruned["bytes"] > 8000
    assert pruned["bytes"] < good

    def refuse(*_, **__):
        raise AssertionError

    assert facts(open_run(run), ["b", "a"], engine=refuse).num_rows == open_run(run).num_rows


def test_prune_forgets_logs_that_are_gone(rlaudit, team, own_cache) -> None:
    shutil.rmtree(team / "user")
    before = report(rlaudit("cache", "--json"))
    assert before["stale_bytes"] == before["bytes"] > 0
    report(rlaudit("cache", "--prune", "--json"))
    assert not files(own_cache)


def test_clear_asks_and_removes_the_store_alone(rlaudit, team, own_cache, monkeypatch) -> None:
    logs = {path: size for path, size in files(team).items() if ".rlaudit" not in path.parts}
    refused = rlaudit("cache", team, "--clear")
    assert refused.code == 2
    assert "add --yes" in refused.err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda *_: "n\n", raising=False)
    assert rlaudit("cache", team, "--clear").code == 1
    assert files(own_cache)
    done = rlaudit("cache", team, "--clear", "--yes")
    assert done.code == 0
    assert done.out.startswith("removed 0.1 MB\n")
    assert files(team) == logs
    assert not files(own_cache)


def test_a_link_in_a_log_is_not_followed(rlaudit, team, tmp_path) -> None:
    (tmp_path / "mine" / "facts").mkdir(parents=True)
    (tmp_path / "mine" / "facts" / "x.facts").write_text("mine")
    shutil.rmtree(team / "own" / ".rlaudit")
    (team / "own" / ".rlaudit").symlink_to(tmp_path / "mine")
    for action in ("--prune", "--clear"):
        assert rlaudit("cache", team, action, "--yes").code == 0
    assert (tmp_path / "mine" / "facts" / "x.facts").read_text() == "mine"


def test_prune_and_clear_together_are_refused(rlaudit) -> None:
    done = rlaudit("cache", "--prune", "--clear", "--yes")
    assert done.code == 2
    assert "not both" in done.err


def test_hostile_names_are_shown_and_not_obeyed(rlaudit, tmp_path) -> None:
    run = tmp_path / "a\x1b[2Jb"
    write(run, rollouts(steps=1, groups=1, size=2), run_id="x")
    facts(open_run(run), ["a"], engine=zeros)
    done = rlaudit("cache", tmp_path)
    assert "\x1b" not in done.out
    assert "\\x1b[2J" in done.out
    assert os.path.exists(run)
