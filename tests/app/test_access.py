"""Who is let in: nobody before proxy or provider has named them; the root never comes from a page."""

from __future__ import annotations

import sys
from pathlib import Path

import audit.app
import pytest
import streamlit as st
from audit.app.access import allowed, rules
from streamlit.testing.v1 import AppTest
from synthetic import rollouts, write

SCRIPT = Path(audit.app.__file__).with_name("streamlit_app.py")


class Headers:
    """What a request brought along."""

    def __init__(self, *values: str) -> None:
        self.values = list(values)

    def get_all(self, name: str) -> list[str]:
        return self.values if name == "X-User" else []


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    write(folder / "one", rollouts(steps=2))
    return folder


def opened(monkeypatch: pytest.MonkeyPatch, logs: Path, *arguments: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["streamlit_app.py", "--logs", str(logs), *arguments])
    st.cache_data.clear()
    return AppTest.from_file(str(SCRIPT), default_timeout=60)


def texts(at: AppTest) -> str:
    return " ".join(
        str(each.value) for kind in (at.text, at.error, at.dataframe, at.multiselect) for each in kind
    )


@pytest.mark.parametrize("values", [(), ("",), ("eve@example.com",), ("ann@example.org", "eve@example.com")])
def test_nobody_else_sees_a_run(monkeypatch, logs, values) -> None:
    monkeypatch.setattr(type(st.context), "headers", Headers(*values))
    at = opened(monkeypatch, logs, "--user-header", "X-User", "--allow", "@example.org").run()
    assert not at.exception
    assert len(at.error) == 1
    assert not at.dataframe
    assert "one" not in texts(at).split()
    assert str(logs) not in texts(at)


def test_the_user_of_the_proxy_is_let_in(monkeypatch, logs) -> None:
    monkeypatch.setattr(type(st.context), "headers", Headers("Ann@Example.org"))
    at = opened(monkeypatch, logs, "--user-header", "X-User", "--allow", "@example.org").run()
    assert not at.exception
    assert not at.error
    assert at.dataframe


@pytest.mark.parametrize(
    ("claims", "shown"),
    [
        ({"is_logged_in": False}, False),
        ({"is_logged_in": True, "email": "ann@example.org", "email_verified": True}, True),
        ({"is_logged_in": True, "email": "ann@example.org", "email_verified": False}, False),
        ({"is_logged_in": True, "email": "ann@example.org"}, False),
        ({"is_logged_in": True, "email": "eve@example.com", "email_verified": True}, False),
        ({"is_logged_in": True, "sub": "17"}, False),
    ],
)
def test_sign_in_shows_runs_to_those_on_the_list(monkeypatch, logs, claims, shown) -> None:
    class User:
        is_logged_in = claims["is_logged_in"]

        def to_dict(self) -> dict[str, object]:
            return claims

    monkeypatch.setattr(st, "user", User())
    at = opened(monkeypatch, logs, "--oidc", "--allow", "ann@example.org").run()
    assert not at.exception
    assert bool(at.dataframe) is shown


@pytest.mark.parametrize(
    ("user", "allow", "is_in"),
    [
        ("ann@example.org", (), True),
        ("", (), False),
        ("ann", ("ann",), True),
        ("ann", ("@example.org",), False),
        ("ann@example.org", ("@example.org",), True),
        ("ann@sub.example.org", ("@example.org",), False),
        ("ann@example.org@evil.example", ("@example.org",), False),
        ("ANN@EXAMPLE.ORG", ("ann@example.org",), True),
        ("bann@example.org", ("ann@example.org",), False),
    ],
)
def test_names_match_as_a_whole(user, allow, is_in) -> None:
    assert allowed(user, allow) is is_in


def test_rules_come_from_the_command_line_alone() -> None:
    assert rules(["--logs", "x"]) == rules([])
    assert rules(["--oidc", "--allow", "a", "--allow", "b"]).allow == ("a", "b")


@pytest.mark.parametrize("name", ["../../etc", "/etc", "one/../../etc", "..", "nothing"])
def test_a_run_of_the_address_is_one_of_the_list_or_refused(monkeypatch, logs, name) -> None:
    at = opened(monkeypatch, logs)
    at.query_params["run"] = name
    at.run()
    assert not at.exception
    assert at.error[0].value.startswith("Refused")
    assert at.multiselect[0].value == []


def test_the_directory_of_the_address_is_ignored(monkeypatch, logs, tmp_path) -> None:
    write(tmp_path / "other", rollouts(steps=2))
    at = opened(monkeypatch, logs)
    at.query_params["logs"] = str(tmp_path)
    at.run()
    assert at.multiselect[0].options == ["one"]
