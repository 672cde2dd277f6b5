"""The command that starts the dashboard: closed by default, and open only by words that say so."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from audit.cli import main, serving
from audit.cli.serving import Serving, script_arguments, server_options
from audit.errors import AuditError

SECRETS = """
[auth]
redirect_uri = "https://audit.example.org/oauth2callback"
cookie_secret = "0123456789abcdef0123456789abcdef"
client_id = "id"
client_secret = "secret"
server_metadata_url = "https://id.example.org/.well-known/openid-configuration"
"""


@pytest.fixture
def start(monkeypatch):
    """Call the verb; returns the command that would have been run."""

    def call(*arguments: object) -> list[str]:
        started: list[list[str]] = []
        # It goes elsewhere; put back afterwards.
        monkeypatch.chdir(Path.cwd())

        def replaced(path: str, command: list[str]) -> None:
            started.append(command)
            raise SystemExit(0)

        monkeypatch.setattr(os, "execv", replaced)
        # Whatever listens on this machine just now, and addresses that it does not have.
        monkeypatch.setattr(serving, "check_port", lambda host, port: None)
        with pytest.raises(SystemExit) as ended:
            main(["dashboard", *map(str, arguments)])
        assert ended.value.code == (0 if started else 2)
        return started[0] if started else []

    return call


def test_it_serves_this_machine_and_asks_for_nothing(tmp_path, start) -> None:
    command = start(tmp_path, "--port", "8600")
    # On a machine without a Streamlit home the prompt for an e-mail address blocks the server.
    for option in (
        "--server.address=127.0.0.1",
        "--server.port=8600",
        "--server.allowedHosts=localhost",
        "--server.allowedHosts=127.0.0.1",
        "--server.enableCORS=true",
        "--server.enableXsrfProtection=true",
        "--server.enableStaticServing=false",
        "--server.enableAgentApi=false",
        "--server.maxUploadSize=1",
        "--server.fileWatcherType=none",
        "--server.showEmailPrompt=false",
        "--browser.gatherUsageStats=false",
        "--client.showErrorDetails=none",
        "--theme.font=sans-serif",
    ):
        assert option in command
    assert command[-2:] == ["--logs", str(tmp_path.resolve())]


def test_streamlit_is_not_started_where_a_log_may_bring_its_settings(tmp_path, start, monkeypatch) -> None:
    from streamlit import config

    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text(
        "server.corsAllowedOrigins = ['http://evil.example']"
    )
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", "kept")
    monkeypatch.chdir(tmp_path)
    assert start(".")[-2:] == ["--logs", str(tmp_path.resolve())]
    assert not any(map(os.path.exists, config.get_config_files("config.toml")))
    assert os.environ["RLAUDIT_CACHE_DIR"] == str(tmp_path / "kept")


def test_the_secrets_of_sign_in_are_those_that_were_checked(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    secrets = tmp_path / ".streamlit" / "secrets.toml"
    secrets.parent.mkdir()
    secrets.write_text(SECRETS, encoding="utf-8")
    assert f"--secrets.files={secrets}" in server_options(Serving(auth="oidc"), tmp_path)
    assert "--secrets.files" not in " ".join(server_options(Serving(), tmp_path))


def test_every_option_is_one_of_streamlit() -> None:
    from streamlit import config

    with pytest.raises(RuntimeError):
        config.get_option("server.noSuchOption")
    for option in server_options(Serving(), Path()):
        config.get_option(option.removeprefix("--").partition("=")[0])


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "audit.example.org", "127.0.0.1.evil.example"]
)
def test_another_address_without_sign_in_is_refused_with_the_reason(tmp_path, start, host, capsys) -> None:
    assert start(tmp_path, "--host", host) == []
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--auth oidc" in said
    assert "--unsafe-no-auth" in said


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_sign_in(tmp_path, host) -> None:
    Serving(host=host).check(tmp_path)


def test_it_is_open_where_that_is_asked_for(tmp_path, start) -> None:
    command = start(tmp_path, "--host", "192.168.1.5", "--unsafe-no-auth")
    assert "--server.address=192.168.1.5" in command
    assert "--server.allowedHosts=192.168.1.5" in command


def test_a_proxy_names_the_user(tmp_path, start) -> None:
    arguments = ("--auth", "proxy-header:X-User", "--allow", "@example.org", "--allow-host", "a.example.org")
    command = start(tmp_path, *arguments, "--base-path", "/rlaudit/")
    assert "--server.allowedHosts=a.example.org" in command
    assert "--server.baseUrlPath=rlaudit" in command
    assert command[-4:] == ["--user-header", "X-User", "--allow", "@example.org"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"auth": "password"}, "expected oidc"),
        ({"auth": "proxy-header:"}, "expected oidc"),
        ({"auth": "proxy-header:X User"}, "expected oidc"),
        ({"auth": "proxy-header:X-User", "unsafe_no_auth": True}, "contradict"),
        ({"allow": ("a@example.org",)}, "nobody has a name"),
        ({"allow_hosts": ("*",)}, "host name"),
        ({"allow_hosts": ("a.example.org:80",)}, "host name"),
        ({"base_path": "/../x"}, "expected a path"),
        ({"base_path": "/x --server.enableCORS=false"}, "expected a path"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path, asked, why) -> None:
    with pytest.raises(AuditError, match=why):
        Serving(**asked).check(tmp_path)


def test_sign_in_needs_its_package_and_its_secrets(tmp_path, monkeypatch) -> None:
    asked = Serving(host="0.0.0.0", auth="oidc")
    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    with pytest.raises(AuditError, match=r"rlaudit\[auth\]"):
        asked.check(tmp_path)
    monkeypatch.setattr(serving, "find_spec", lambda name: object())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(AuditError, match=r"section \[auth\]"):
        asked.check(tmp_path)
    secrets = tmp_path / ".streamlit" / "secrets.toml"
    secrets.parent.mkdir()
    for text, why in (
        ("[auth", "cannot be read"),
        ("[auth]\nclient_id = 'x'", "lacks redirect_uri, cookie_secret, client_secret"),
        (SECRETS.replace("0123456789abcdef0123456789abcdef", "short"), "fewer than 32"),
    ):
        secrets.write_text(text, encoding="utf-8")
        with pytest.raises(AuditError, match=why) as raised:
            asked.check(tmp_path)
        assert "secret = " not in str(raised.value)
    secrets.write_text(SECRETS, encoding="utf-8")
    asked.check(tmp_path)
    assert script_arguments(asked) == ["--oidc"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_is_refused_with_another_one(host, tmp_path, capsys, monkeypatch) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as taken:
        try:
            taken.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("a server was started"))
        with pytest.raises(SystemExit) as ended:
            main(["dashboard", str(tmp_path), "--host", host, "--port", str(port)])
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"port {port} of {host} cannot be listened on" in said
    assert f"Use --port {port + 1}." in said


def test_a_free_port_is_taken_as_it_is() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving.check_port("127.0.0.1", port)
