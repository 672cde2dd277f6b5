"""Where what was computed from a log is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from audit.errors import AuditError, UnknownName
from audit.logs.cache_place import cache_place, claim, owner_of, user_cache


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("RLAUDIT_CACHE", raising=False)
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_run_that_can_be_written_to_keeps_its_own(tmp_path) -> None:
    assert cache_place(tmp_path) == tmp_path / ".rlaudit"
    assert owner_of(tmp_path / ".rlaudit") == str(tmp_path)
    assert not (tmp_path / ".rlaudit").exists()


def test_single_files_addresses_and_read_only_runs_go_to_the_user_s_cache(
    tmp_path, cache, monkeypatch
) -> None:
    file = tmp_path / "x.parquet"
    file.write_bytes(b"PAR1")
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    places = [cache_place(path) for path in (file, run, "s3://bucket/run", tmp_path / "gone")]
    assert len(set(places)) == 4
    for place in places:
        assert place is not None
        assert place.parent == cache / "runs"
    assert cache_place(run) == places[1]


def test_relative_and_linked_paths_are_one_log(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE", "user")
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    found = {
        cache_place(path) for path in ("run", "./run/", tmp_path / "run", Path("link"), tmp_path / "link")
    }
    assert len(found) == 1


def test_the_folder_says_which_log_it_belongs_to(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE", "user")
    for path in (tmp_path, "s3://bucket/run", tmp_path / "a\udcffb"):
        place = cache_place(path)
        assert place is not None
        claim(place, path)
        claim(place, path)
        named = owner_of(place)
        assert named == str(path).replace("\udcff", "\\xff")
        assert [file.name for file in place.iterdir()] == ["about.json"]


def test_beside_a_log_it_is_out_of_version_control(tmp_path) -> None:
    for _ in range(2):
        claim(tmp_path / ".rlaudit", tmp_path)
        assert [(file.name, file.read_text()) for file in (tmp_path / ".rlaudit").iterdir()] == [
            (".gitignore", "*\n")
        ]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileExistsError):
        claim(tmp_path / "file", tmp_path)


@pytest.mark.parametrize("contents", [b"", b"{}", b"[1]", b'{"path": 3}', b"\xff"])
def test_a_damaged_note_names_nobody(tmp_path, contents) -> None:
    (tmp_path / "about.json").write_bytes(contents)
    assert owner_of(tmp_path) is None


def test_the_environment_chooses(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE", "off")
    assert cache_place(tmp_path) is None
    monkeypatch.setenv("RLAUDIT_CACHE", " User ")
    assert cache_place(tmp_path) != tmp_path / ".rlaudit"
    monkeypatch.setenv("RLAUDIT_CACHE", "of")
    with pytest.raises(UnknownName, match="Did you mean 'off'"):
        cache_place(tmp_path)


def test_without_a_setting_it_is_the_platform_s_directory(monkeypatch) -> None:
    monkeypatch.delenv("RLAUDIT_CACHE_DIR")
    assert user_cache().name in {"rlaudit", "Cache"}
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", "~/mine")
    assert user_cache() == Path.home() / "mine"


def test_a_home_that_is_not_there_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", "~nobody-of-that-name/x")
    with pytest.raises(AuditError, match="RLAUDIT_CACHE_DIR"):
        user_cache()
