"""The start of the server: what the first page needs is there before anybody asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from audit.app import serve

SAMPLES = Path(__file__).parents[2] / "sample_logs"
ALONE = """
import sys
from audit.app import serve
serve.PATIENCE = 0.0
sys.argv = ["serve", "run", "x.py", "--", "--logs", {logs!r}]
serve.prepare()
print(*(name in sys.modules for name in ("audit.app.cached", "pandas", "torch", "audit.app.pages")))
"""


@pytest.mark.parametrize("logs", ["team", "nowhere"])
def test_it_prepares_without_torch_and_without_drawing(logs: str) -> None:
    code = ALONE.format(logs=str(SAMPLES / logs))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # torch takes a second; a page that is made outside of a visit cannot be shown to anybody.
    assert done.stdout == "True True False False\n"
    # Here there is no server, which caches complain of; what draws would complain of more.
    assert [line for line in done.stderr.splitlines() if "No runtime found" not in line] == []


def test_it_waits_for_the_server_but_not_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(serve, "PATIENCE", 0.1)
    monkeypatch.setattr(sys, "argv", ["serve", "run", "x.py"])
    serve.prepare()


def test_everything_that_is_named_exists() -> None:
    assert all(serve.import_module(name) for name in (*serve.HEAVY, *serve.OF_PAGES))
