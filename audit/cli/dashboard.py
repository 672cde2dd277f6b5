"""``rlaudit dashboard``: open a log directory in the browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from audit.cli.options import DirectoryPath
from audit.errors import BadLog


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(dashboard)


def dashboard(
    directory: DirectoryPath,
    *,
    port: Annotated[int, typer.Option(help="Port.", min=1, max=65535)] = 8501,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than this machine's own only with --auth.")
    ] = "127.0.0.1",
    auth: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Who signs people in. oidc: an OpenID provider (secrets.toml). proxy-header:NAME: a reverse "
            "proxy that names the user in this header.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHO", help="USER or @DOMAIN that may see the runs; default: everybody signed in."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name under which browsers reach the server, behind a proxy."),
    ] = None,
    base_path: Annotated[str, typer.Option(help="Path below which a proxy serves it: /rlaudit.")] = "",
    unsafe_no_auth: Annotated[
        bool, typer.Option("--unsafe-no-auth", help="Show every run to everybody who reaches the address.")
    ] = False,
) -> None:
    """Open the dashboard on a directory of runs, for this machine only (127.0.0.1).

    docs/dashboard.md says how a team shares it.

    Example: rlaudit dashboard sample_logs/team
    """
    from importlib.resources import files

    from audit.cli.serving import Serving, check_port, script_arguments, server_options
    from audit.logs.cache_place import user_cache
    from audit.logs.places import is_directory

    serving = Serving(
        host=host,
        port=port,
        auth=auth,
        allow=tuple(allow or ()),
        allow_hosts=tuple(allow_host or ()),
        base_path=base_path,
        unsafe_no_auth=unsafe_no_auth,
        browser=browser,
    )
    here = Path.cwd()
    serving.check(here)
    if not is_directory(directory):
        msg = f"{directory}: not a directory."
        raise BadLog(msg)
    check_port(host, port)
    script = Path(str(files("audit.app"))) / "streamlit_app.py"
    # -P: the directory that this was started in may be a log, and must not be imported from.
    command = [
        sys.executable,
        "-P",
        "-m",
        "audit.app.serve",
        "run",
        str(script),
        *server_options(serving, here),
    ]
    command += ["--", "--logs", str(directory.resolve()), *script_arguments(serving)]
    if os.environ.get("RLAUDIT_CACHE_DIR"):
        os.environ["RLAUDIT_CACHE_DIR"] = str(user_cache().absolute())
    # Streamlit obeys a .streamlit/config.toml where it starts, which may be a log: it can let pages of other
    # sites in.
    os.chdir(script.parent)
    # In place of this process, so that whoever ends it ends the server.
    os.execv(sys.executable, command)
