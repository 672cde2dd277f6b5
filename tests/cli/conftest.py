"""Small logs, and the command line called in this process."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from synthetic import centred, rollouts, standardised, with_advantages, write

from audit.cli import main


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def rlaudit(capsys, monkeypatch):
    """Call the command line; returns exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Result:
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = 0 if end.code is None else int(end.code)
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return call


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A directory with a GRPO run, a Dr. GRPO run, and a run that declares nothing."""
    root = tmp_path_factory.mktemp("runs")
    write(root / "grpo-1", with_advantages(rollouts(), standardised(0, 0.0)), "grpo")
    write(root / "dr-1", with_advantages(rollouts(seed=1), centred), "dr_grpo")
    write(root / "bare", with_advantages(rollouts(seed=2), centred))
    return root
