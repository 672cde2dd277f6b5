"""Groups without a group id."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.importers.blocks import contiguous_blocks


@given(
    st.integers(2, 5), st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=4)
)
def test_blocks_of_a_known_size_are_recovered(size: int, files: list[list[int]]) -> None:
    prompts = np.array([p for file in files for p in file for _ in range(size)])
    batch = np.array([f for f, file in enumerate(files) for _ in file for _ in range(size)])
    blocks = contiguous_blocks(prompts, batch, size)
    assert blocks.group is not None
    assert blocks.group.tolist() == np.repeat(np.arange(sum(map(len, files))), size).tolist()
    for g in range(blocks.group.max() + 1):
        assert len(set(prompts[blocks.group == g])) == 1
        assert len(set(batch[blocks.group == g])) == 1


def test_the_size_is_the_common_divisor_of_the_runs() -> None:
    prompts = np.repeat([0, 1, 2, 1], [4, 8, 4, 4])
    blocks = contiguous_blocks(prompts, np.zeros(20, dtype=int))
    assert (blocks.size, blocks.group is not None) == (4, True)
    assert "1 prompt fills" in blocks.reason


def test_contradicting_evidence_is_refused() -> None:
    for prompts in (np.arange(6), np.repeat([0, 1], [3, 4])):
        blocks = contiguous_blocks(prompts, np.zeros(len(prompts), dtype=int))
        assert blocks.group is None
        assert blocks.reason
    declared = contiguous_blocks(np.repeat([0, 1], [4, 6]), np.zeros(10, dtype=int), 4)
    assert declared.group is None
    assert "no multiple of the group size 4" in declared.reason


def test_no_rows_have_no_groups() -> None:
    assert contiguous_blocks(np.array([], dtype=int), np.array([], dtype=int)).group is None


@pytest.mark.parametrize("declared", [None, 8])
@pytest.mark.parametrize("problems", [[0, 1, 2, 3], [0, 1, 0, 3], [0, 0, 1, 3], [0, 1, 2, 2]])
def test_a_log_that_was_cut_ends_with_a_shorter_group(problems, declared) -> None:
    prompts = np.repeat(problems, [8, 8, 8, 1])
    blocks = contiguous_blocks(prompts, np.zeros(25, dtype=int), declared, may_be_cut=True)
    assert blocks.group is not None
    assert blocks.group.tolist() == np.repeat([0, 1, 2, 3], [8, 8, 8, 1]).tolist()
    assert "1 of 4 groups hold fewer than 8 rows: the log was cut in the last" in blocks.reason


def test_only_the_very_last_run_may_be_shorter() -> None:
    for runs in ([8, 1, 8, 8], [8, 8, 4, 8, 1], [8, 3], [2, 3, 3]):
        prompts = np.repeat(np.arange(len(runs)), runs)
        assert contiguous_blocks(prompts, np.zeros(len(prompts), dtype=int), 8, may_be_cut=True).group is None


def test_where_a_log_cannot_be_cut_a_shorter_group_contradicts() -> None:
    prompts = np.repeat([0, 1, 2], [8, 8, 1])
    assert contiguous_blocks(prompts, np.zeros(17, dtype=int), 8).group is None
