"""How the dashboard is served: which address, who is let in, and what the server is told not to do."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from audit.errors import AuditError

_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_NAME = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_PATH = re.compile(r"[A-Za-z0-9._~/-]*")
_SECRETS = Path(".streamlit") / "secrets.toml"
_NEEDED = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
_SHORTEST_SECRET = 32
PROXY = "proxy-header:"


@dataclass(frozen=True)
class Serving:
    """What the command line asked for."""

    host: str = "127.0.0.1"
    port: int = 8501
    auth: str | None = None
    allow: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    base_path: str = ""
    unsafe_no_auth: bool = False
    browser: bool = True

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def header(self) -> str:
        """Header in which the proxy names the user; empty without one."""
        return (self.auth or "").removeprefix(PROXY) if (self.auth or "").startswith(PROXY) else ""

    def check(self, folder: Path) -> None:
        """Refuse what would show logs to people who were not meant, or does not work.

        Parameters
        ----------
        folder : Path
            Where the server starts; the secrets of sign-in lie in it, or in the home directory.

        Raises
        ------
        AuditError
        """
        if self.auth is not None and self.auth != "oidc" and not _HEADER.fullmatch(self.header):
            msg = f"--auth {self.auth}: expected oidc, or proxy-header:NAME (X-Forwarded-User)."
            raise AuditError(msg)
        if self.auth is not None and self.unsafe_no_auth:
            msg = "--auth and --unsafe-no-auth contradict each other."
            raise AuditError(msg)
        if not self.loopback and self.auth is None and not self.unsafe_no_auth:
            msg = (
                f"--host {self.host}: everybody who reaches that address would see every run. Add --auth "
                "oidc or --auth proxy-header:NAME (docs/dashboard.md), or --unsafe-no-auth to mean just that."
            )
            raise AuditError(msg)
        if self.allow and self.auth is None:
            msg = "--allow names people, and without --auth nobody has a name."
            raise AuditError(msg)
        for name in self.allow_hosts:
            if not _NAME.fullmatch(name):
                msg = f"--allow-host {name}: expected a host name without a port, as in audit.example.org."
                raise AuditError(msg)
        if not _PATH.fullmatch(self.base_path) or ".." in self.base_path:
            msg = f"--base-path {self.base_path}: expected a path, as in /rlaudit."
            raise AuditError(msg)
        if self.auth == "oidc":
            check_oidc(folder)


def check_port(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before a server starts to.

    Raises
    ------
    AuditError
        Another program listens there, or it is no address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            hint = f"Another dashboard? Use --port {port + 1}." if error.errno == errno.EADDRINUSE else ""
            msg = f"port {port} of {host} cannot be listened on ({error.strerror or error}). {hint}".rstrip()
            raise AuditError(msg) from None


def secrets_file(folder: Path) -> Path | None:
    """Return the file with the secrets of sign-in: in the folder of the start, else in the home directory."""
    places = (folder / _SECRETS, Path.home() / _SECRETS)
    return next((place for place in places if place.is_file()), None)


def check_oidc(folder: Path) -> None:
    """Refuse to start a server at which nobody could sign in.

    Raises
    ------
    AuditError
        Authlib is not installed, or no secrets.toml has what st.login needs.
    """
    if find_spec("authlib") is None:
        raise AuditError(
            "--auth oidc needs the package Authlib; install it with: pip install 'rlaudit[auth]'"
        )
    path = secrets_file(folder)
    if path is None:
        msg = f"--auth oidc needs {folder / _SECRETS} with a section [auth]; see docs/dashboard.md."
        raise AuditError(msg)
    try:
        section: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("auth")
    except (OSError, ValueError) as error:
        raise AuditError(f"{path}: cannot be read: {error}") from None
    section = section if isinstance(section, dict) else {}
    missing = [name for name in _NEEDED if not section.get(name)]
    if missing:
        raise AuditError(f"{path}: section [auth] lacks {', '.join(missing)}.")
    if len(str(section["cookie_secret"])) < _SHORTEST_SECRET:
        msg = (
            f"{path}: cookie_secret has fewer than {_SHORTEST_SECRET} characters; make one with "
            "python -c 'import secrets; print(secrets.token_hex(32))'"
        )
        raise AuditError(msg)


def server_options(serving: Serving, folder: Path) -> list[str]:
    """Return Streamlit's options; what is said here wins over the config.toml of the home directory.

    Parameters
    ----------
    folder : Path
        Where the command was given.
    """
    secrets = secrets_file(folder) if serving.auth == "oidc" else None
    options = {
        "server.address": serving.host,
        "server.port": serving.port,
        "server.headless": not serving.browser,
        "server.baseUrlPath": serving.base_path.strip("/"),
        # A page of another site that resolves its own name to this address is refused.
        "server.allowedHosts": list(_hosts(serving)),
        "server.enableCORS": True,
        "server.enableXsrfProtection": True,
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        # Nothing is uploaded.
        "server.maxUploadSize": 1,
        "server.fileWatcherType": "none",
        # On a new machine Streamlit would ask for an e-mail address, and serve nothing until it is answered.
        "server.showEmailPrompt": False,
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "viewer",
        "client.showErrorDetails": "none",
        "client.showErrorLinks": False,
        # Strings that stand alone in a script would be shown as text.
        "runner.magicEnabled": False,
        # The server's own fonts: a config.toml may name some that are fetched from elsewhere.
        "theme.font": "sans-serif",
        "theme.headingFont": "sans-serif",
        "theme.headingFontSizes": ["2rem"],
        "theme.codeFont": "monospace",
        # Red is for what is wrong.
        # Captions are this text at six tenths: from the usual grey they are too pale to read.
        "theme.light.textColor": "#0f1115",
        "theme.light.primaryColor": "#1f5fa8",
        "theme.dark.primaryColor": "#5b9bd9",
    }
    if secrets is not None:
        options["secrets.files"] = str(secrets)
    return [each for name, value in options.items() for each in _option(name, value)]


def _option(name: str, value: Any) -> Iterator[str]:
    values = value if isinstance(value, list) else [value]
    for each in values:
        yield f"--{name}={str(each).lower() if isinstance(each, bool) else each}"


def _hosts(serving: Serving) -> Iterator[str]:
    """Names by which browsers reach the server: this machine's, and those that were given."""
    yield from dict.fromkeys([*serving.allow_hosts, *_own_names(serving)])


def _own_names(serving: Serving) -> list[str]:
    names = ["localhost", "127.0.0.1", "::1"]
    if serving.loopback:
        return names
    if serving.host not in {"0.0.0.0", "::"}:
        return [*names, serving.host]
    own = socket.gethostname()
    names += [own, socket.getfqdn()]
    try:
        names += [str(each[4][0]) for each in socket.getaddrinfo(own, None)]
    except OSError:
        return names
    return names


def script_arguments(serving: Serving) -> list[str]:
    """Return what the frame of the dashboard is told about who is let in."""
    told = ["--oidc"] if serving.auth == "oidc" else []
    told += ["--user-header", serving.header] if serving.header else []
    return told + [each for user in serving.allow for each in ("--allow", user)]
