"""No chart sends a browser more than 5,000 marks, however large a log is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from shown import drawn, faults, marks, opened, views

PAGES = {
    "steps": ("clipping", "groups", "kl", "length", "mismatch", "what_if"),
    "updates": ("clipping", "kl"),
}
"""What each log is large in, and the pages that draw it."""
MANIFEST = '{"schema": "rlaudit.run.v1", "run_id": "%s", "objective": {"name": "grpo"}}'


def write_large(path: Path, steps: int, updates: int, groups: int, prompts: int, seed: int = 0) -> None:
    """A log with many steps, updates, prompts, lengths, rewards and token ids."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(steps * updates * groups), 4)
    update = group // groups
    length = rng.integers(1, 20, len(group))
    ends = np.cumsum(length)
    logp = -rng.exponential(1.0, int(ends[-1])) - 1e-3

    def lists(values: np.ndarray, kind: type[pl.DataType]) -> pl.Series:
        return pl.Series(np.split(values, ends[:-1]), dtype=pl.List(kind))

    noise = [np.minimum(logp + rng.normal(0, s, len(logp)), -1e-4) for s in (0.15, 0.1, 0.01)]
    prompt = rng.permutation(np.arange(steps * updates * groups) % prompts)[group]
    correct = rng.random(len(group)) < (prompt % 10 + 0.5) / 10
    reward = correct.astype(float)
    mean = reward.reshape(-1, 4).mean(axis=1).repeat(4)
    spread = np.maximum(reward.reshape(-1, 4).std(axis=1).repeat(4), 1e-9)
    frame = pl.DataFrame(
        {
            "step": update // updates + 1,
            "update": update + 1,
            "prompt_id": prompt.astype(str),
            "group_id": group.astype(str),
            "sample_index": np.tile(np.arange(4, dtype=np.int32), len(group) // 4),
            "reward": reward,
            "correct": correct,
            "advantage": (reward - mean) / spread,
            "length": length.astype(np.int32),
            "token_ids": lists(rng.integers(0, 20_000, len(logp)), pl.Int32),
            "logp_old": lists(logp, pl.Float32),
            "logp_theta": lists(noise[0], pl.Float32),
            "logp_ref": lists(noise[1], pl.Float32),
            "logp_sampler": lists(noise[2], pl.Float32),
        }
    )
    (path / "rollouts").mkdir(parents=True)
    (path / "run.json").write_text(MANIFEST % path.name, encoding="utf-8")
    frame.write_parquet(path / "rollouts" / "part-0.parquet")


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    write_large(root / "steps", steps=2000, updates=1, groups=1, prompts=1000)
    write_large(root / "updates", steps=1, updates=2000, groups=1, prompts=500)
    return root


@pytest.mark.parametrize("run", PAGES)
def test_charts_of_a_large_log_stay_small(logs, monkeypatch, run) -> None:
    seen = 0
    for page in PAGES[run]:
        at = opened(monkeypatch, logs, page, run)
        for view in views(at):
            assert faults(at) == [], (page, view)
            charts = drawn(at)
            seen += len(charts)
            # Taller than this nobody scrolls.
            assert [each.alt for each in charts if each.height > 3000] == [], (page, view)
    assert seen >= 10


def test_the_course_of_a_prompt_that_is_always_drawn_stays_small(tmp_path, monkeypatch) -> None:
    write_large(tmp_path / "one", steps=2500, updates=1, groups=1, prompts=1)
    at = opened(monkeypatch, tmp_path, "groups", "one", prompt="0")
    assert faults(at) == []
    assert [len(each.frame) for each in drawn(at)] == [1500]
    assert any("The last 1,500 of 2,500 visits." in each.value for each in at.caption)


def test_charts_of_two_large_logs_stay_small(logs, monkeypatch) -> None:
    at = opened(monkeypatch, logs, "compare", "steps", "updates")
    assert [view for view in views(at) if faults(at)] == []


def test_charts_of_as_many_runs_as_can_be_compared_stay_small(tmp_path, monkeypatch) -> None:
    names = [f"run{at:02}" for at in range(50)]
    for seed, name in enumerate(names):
        write_large(tmp_path / name, steps=30, updates=1, groups=1, prompts=5, seed=seed)
    at = opened(monkeypatch, tmp_path, "compare", *names)
    seen = []
    for _ in views(at):
        assert faults(at) == []
        seen += [marks(each) for each in drawn(at)]
    # A cell for each pair of runs, and a point for each run and bin.
    assert max(seen) >= len(names) ** 2
