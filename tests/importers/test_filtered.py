"""Dropped groups are seen where they must have been, and not where there were none."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from audit.importers.filtered import Silent


def watched(rewards: np.ndarray, drop: bool) -> str | None:
    silent = Silent()
    for step, groups in enumerate(np.array_split(rewards, 3)):
        for at, group in enumerate(groups):
            if drop and len(set(group)) == 1:
                continue
            names = pa.array([f"{step}-{at}"] * len(group))
            silent.add(pa.RecordBatch.from_arrays([names, pa.array(group)], names=["group_id", "reward"]))
    return silent.note()


def drawn(seed: int, rates: np.ndarray, size: int, groups: int = 400) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((groups, size)) < rng.choice(rates, groups)[:, None]).astype(float)


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("rates", [np.linspace(0.02, 0.98, 20), np.array([0.1, 0.9])])
def test_dropped_groups_are_seen(size, rates) -> None:
    for seed in range(5):
        note = watched(drawn(seed, rates, size), drop=True)
        assert note is not None
        # The number is a lower bound of what was dropped, but for chance.
        dropped = sum(len(set(g)) == 1 for g in drawn(seed, rates, size))
        assert int(re.search(r"where (\d+) or more", note)[1]) <= 1.5 * dropped


@pytest.mark.parametrize("size", [4, 8, 16])
def test_groups_that_are_never_silent_by_chance_are_not_taken_for_dropped(size) -> None:
    # Rates near one half make no silent groups of 8 or 16, or too few to tell.
    said = [watched(drawn(seed, np.array([0.4, 0.5, 0.6]), size, 100), drop=size > 4) for seed in range(40)]
    assert sum(note is not None for note in said) <= 1


def test_rewards_of_many_values_and_logs_with_silent_groups_say_nothing() -> None:
    assert watched(np.random.default_rng(0).random((200, 8)), drop=False) is None
    assert watched(drawn(0, np.linspace(0, 1, 20), 8), drop=False) is None
    assert Silent().note() is None
