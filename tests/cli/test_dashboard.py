"""The command that starts the dashboard."""

from __future__ import annotations

import os

import pytest

from audit.cli import main


def test_it_serves_this_machine_and_asks_for_nothing(tmp_path, monkeypatch) -> None:
    started: list[list[str]] = []

    def start(path: str, arguments: list[str]) -> None:
        started.append(arguments)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", start)
    with pytest.raises(SystemExit):
        main(["dashboard", str(tmp_path), "--port", "8600"])
    [arguments] = started
    # On a machine without a Streamlit home the prompt for an e-mail address blocks the server.
    for option in (
        "--server.address=127.0.0.1",
        "--server.port=8600",
        "--server.showEmailPrompt=false",
        "--browser.gatherUsageStats=false",
    ):
        assert option in arguments
    assert arguments[-2:] == ["--logs", str(tmp_path.resolve())]
