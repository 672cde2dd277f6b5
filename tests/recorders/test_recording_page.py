"""The code of docs/recording.md runs as it stands there."""

from __future__ import annotations

import ast
import importlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
RECIPE = BLOCKS[-1]


def train() -> Iterator[list[Any]]:
    """Three updates of two groups of four, advantages of GRPO."""
    draw = random.Random(0)
    for _ in range(3):
        batch = []
        for group in range(2):
            rewards = [0.0, 1.0, *(float(draw.random() < 0.5) for _ in range(2))]
            mean = sum(rewards) / 4
            std = (sum((r - mean) ** 2 for r in rewards) / 3) ** 0.5
            for place, reward in enumerate(rewards):
                length = draw.randint(2, 6)
                logps = torch.tensor([-draw.random() for _ in range(length)])
                batch.append(
                    SimpleNamespace(
                        prompt=f"prompt {group}",
                        group=group,
                        place=place,
                        reward=reward,
                        advantage=(reward - mean) / (std + 1e-4),
                        tokens=torch.arange(length),
                        mask=[True] * length,
                        logp=logps,
                        old_logp=logps + 0.01,
                        ended=length < 6,
                    )
                )
        yield batch


def test_the_recipe_writes_a_run_that_check_has_nothing_against(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rows_read import read_rows

    from audit.logs import open_run, validate

    monkeypatch.chdir(tmp_path)
    assert len(RECIPE.strip().splitlines()) <= 24
    exec(compile(RECIPE, "docs/recording.md", "exec"), {"train": train, "rank": 0})
    folder = tmp_path / "logs" / "mine-seed1"
    run = open_run(folder)
    assert validate(run) == []
    assert run.manifest.objective == "grpo"
    rows = read_rows(folder)
    expected = [sample for batch in train() for sample in batch]
    assert len(rows) == len(expected) == 24
    for row, sample in zip(rows, expected, strict=True):
        assert row["token_ids"] == sample.tokens.tolist()
        assert row["logp_old"] == sample.old_logp.tolist()
        assert row["advantage"] == sample.advantage
        assert row["finish_reason"] == ("stop" if sample.ended else "length")
    files = sorted(file.name for file in (folder / "rollouts").iterdir())
    assert files == [f"rank000-{number:06d}.parquet" for number in range(3)]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_imports_what_there_is(block: str) -> None:
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            for name in node.names:
                assert hasattr(module, name.name)


def test_every_file_that_the_page_links_to_exists() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", PAGE)
    assert targets
    for target in targets:
        assert (ROOT / "docs" / target).exists(), target
