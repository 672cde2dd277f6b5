"""``rlaudit dashboard``: open a log directory in the browser."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from audit.cli.options import DirectoryPath
from audit.errors import BadLog


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    app.command()(dashboard)


def dashboard(
    directory: DirectoryPath,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)] = 8501,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
) -> None:
    """Open the dashboard on a directory of runs, for this machine only (127.0.0.1).

    Example: rlaudit dashboard sample_logs/team
    """
    from importlib.resources import files

    from audit.logs.places import is_directory

    if not is_directory(directory):
        msg = f"{directory}: not a directory."
        raise BadLog(msg)
    script = files("audit.app") / "streamlit_app.py"
    command = [sys.executable, "-m", "streamlit", "run", str(script)]
    command += ["--server.address=127.0.0.1", f"--server.port={port}", "--browser.gatherUsageStats=false"]
    command += [f"--server.headless={str(not browser).lower()}", "--client.toolbarMode=viewer"]
    # On a new machine Streamlit would ask for an e-mail address, and serve nothing until it is answered.
    command += [
        "--server.showEmailPrompt=false",
        "--server.fileWatcherType=none",
        "--client.showErrorDetails=none",
    ]
    command += ["--", "--logs", str(directory.resolve())]
    # In place of this process, so that whoever ends it ends the server.
    os.execv(sys.executable, command)
