"""Help texts: every verb has an example, and the examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from audit.cli import app

COMMANDS = dict(typer.main.get_command(app).commands)
SAMPLES = Path(__file__).parents[2] / "sample_logs"


def examples(verb: str) -> list[list[str]]:
    said = re.findall(r"^\s*(?:Example: )?rlaudit (.+)$", COMMANDS[verb].help or "", re.MULTILINE)
    return [shlex.split(line) for line in said]


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_has_an_example_of_the_verb_itself(rlaudit, verb) -> None:
    done = rlaudit(verb, "--help")
    assert done.code == 0
    assert f"Example: rlaudit {verb}" in " ".join(done.out.split())
    assert examples(verb)
    # What is too wide for 80 columns would end in three dots.
    assert "…" not in done.out
    assert all(example[0] == verb for example in examples(verb))


@pytest.mark.parametrize("verb", [verb for verb in COMMANDS if verb != "dashboard"])
def test_the_examples_run(rlaudit, verb, tmp_path, monkeypatch) -> None:
    (tmp_path / "sample_logs").symlink_to(SAMPLES)
    monkeypatch.chdir(tmp_path)
    for example in examples(verb):
        done = rlaudit(*example)
        assert done.code in {0, 1}, done.err
        assert done.out


def test_the_first_screen_says_where_to_start(rlaudit) -> None:
    done = rlaudit("--help")
    assert done.code == 0
    assert "Start with: rlaudit explain RUN_A RUN_B" in done.out
    assert all(verb in done.out for verb in COMMANDS)


def test_the_version_is_the_package_s(rlaudit) -> None:
    assert re.fullmatch(r"rlaudit \d+\.\d+\.\d+\S*\n", rlaudit("--version").out)
