"""One dashboard and one browser for the tests of this folder; nothing but 127.0.0.1 can be reached.

Tests are skipped where there is no Chromium; none is ever downloaded.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_log import write_hostile
from synthetic import rollouts, write
from visit import Browsers

SAMPLES = Path(__file__).parents[3] / "sample_logs"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 120.0  # seconds until the server answers, on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium or Chrome of this machine."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on PATH; install one: apt-get install -y chromium")
    return found


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample team without what was computed before, a run full of hostile text, and one to write on."""
    folder = tmp_path_factory.mktemp("team")
    shutil.copytree(
        SAMPLES / "team", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".rlaudit", "*.lock")
    )
    write_hostile(folder / "hostile")
    write(folder / "live", rollouts(steps=6), "grpo")
    return folder


@pytest.fixture(scope="session")
def address(root: Path, chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the dashboard answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, "-m", "audit", "dashboard", str(root), "--port", str(port), "--no-browser"]
    environment = {**os.environ, "HOME": str(log.parent)}
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment)
    try:
        place = f"http://127.0.0.1:{port}"
        _wait(server, f"{place}/_stcore/health", log)
        yield place
    finally:
        server.terminate()
        server.wait(30)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)
    pytest.fail(f"the dashboard did not answer within {PATIENCE:.0f} s:\n{log.read_text()}")


# Not of the session: the loop of Playwright runs in this thread, and other tests have loops of their own.
@pytest.fixture(scope="module")
def browsers(chromium: str, address: str) -> Iterator[Browsers]:
    """Fresh windows, as of people who have never been here."""
    with Browsers(chromium, address) as opened:
        yield opened
