"""The README shows what the commands print: each ``console`` block is run and compared.

``python tests/test_readme.py`` writes the blocks again.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n\$ (rlaudit [^\n]*)\n(.*?)```\n", re.DOTALL)


def printed(command: str) -> str:
    """What the command prints on a terminal of 80 columns, without the spaces at line ends.

    It may end in ``| head -N``.
    """
    command, _, lines = command.partition(" | head -")
    run = subprocess.run(
        [sys.executable, "-m", "audit", *shlex.split(command)[1:]],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    shown = run.stdout.splitlines()[: int(lines) if lines else None]
    return "".join(f"{line.rstrip()}\n" for line in shown)


@pytest.mark.parametrize(("command", "shown"), BLOCK.findall(README.read_text(encoding="utf-8")))
def test_the_readme_shows_what_is_printed(command: str, shown: str) -> None:
    assert shown == printed(command), "write the README again: python tests/test_readme.py"


def test_the_readme_has_the_three_jobs() -> None:
    commands = [command for command, _ in BLOCK.findall(README.read_text(encoding="utf-8"))]
    verbs = [command.split()[1] for command in commands]
    assert verbs == ["explain", "explain", "explain", "length", "summary", "dialect", "sql"]


def test_every_file_that_the_readme_links_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    text = BLOCK.sub(lambda m: f"```console\n$ {m[1]}\n{printed(m[1])}```\n", text)
    README.write_text(text, encoding="utf-8")
