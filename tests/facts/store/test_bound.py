"""The user's cache stays within its limit; what is in use goes last."""

from __future__ import annotations

import os

import pytest
from store_samples import ask, make_run

from audit.errors import AuditError
from audit.facts.store.bound import cache_limit, enforce_limit, folder_size, note_use, user_places
from audit.facts.store.lock import exclusive


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Folders of four runs, least recently used first."""
    monkeypatch.setenv("RLAUDIT_CACHE", "user")
    found = []
    for n in range(4):
        _, account = ask(make_run(tmp_path / f"run-{n}"))
        assert account.place is not None
        os.utime(account.place / "about.json", (1000.0 * n, 1000.0 * n))
        found.append(account.place)
    return found


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", 10**10),
        ("500MB", 5 * 10**8),
        (" 1.5 gb ", 15 * 10**8),
        ("0", 0),
        ("7", 7),
        ("2k", 2000),
        ("3B", 3),
    ],
)
def test_a_limit_is_a_number_with_a_unit(monkeypatch, text, limit) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE_LIMIT", text)
    assert cache_limit() == limit


@pytest.mark.parametrize("text", ["many", "-1", "1 PB", "GB", "nan", "9" * 400, "9" * 300 + "TB"])
def test_what_is_no_size_is_refused_before_any_work(monkeypatch, tmp_path, text) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE_LIMIT", text)
    with pytest.raises(AuditError, match=r"500MB or 20GB"):
        ask(make_run(tmp_path))


def test_the_least_recently_used_goes_first(places, monkeypatch) -> None:
    each = folder_size(places[0])
    monkeypatch.setenv("RLAUDIT_CACHE_LIMIT", str(int(2.5 * each)))
    assert enforce_limit(places[0])
    assert user_places() == sorted([places[0], places[3]])


def test_a_run_in_use_elsewhere_is_left(places, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE_LIMIT", "1")
    with exclusive(places[1], lambda: None) as why_not:
        assert not why_not
        enforce_limit(places[0])
    assert places[1] in user_places()


def test_facts_larger_than_the_limit_are_not_kept_and_that_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE", "user")
    monkeypatch.setenv("RLAUDIT_CACHE_LIMIT", "100")
    for _ in range(2):
        engine, account = ask(make_run(tmp_path))
        assert len(engine.calls) == 4
        assert account.place is None
        assert "RLAUDIT_CACHE_LIMIT" in account.not_stored
    assert not user_places()


def test_a_use_is_noted(places) -> None:
    note_use(places[0])
    assert (places[0] / "about.json").stat().st_mtime > 10_000


def test_inside_a_run_there_is_no_limit(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RLAUDIT_CACHE_LIMIT", "1")
    _, account = ask(make_run(tmp_path))
    assert account.place == tmp_path / ".rlaudit"
