"""Groups without an id: what was drawn is found again, or refused with a reason."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from audit.importers.grouping import LARGEST, by_prompt, rebuild, regroup


def partition(codes: np.ndarray) -> set[frozenset[int]]:
    """Rows of each group; rows of no group are left out."""
    groups: dict[int, set[int]] = {}
    for row, code in enumerate(codes.tolist()):
        if code >= 0:
            groups.setdefault(code, set()).add(row)
    return {frozenset(rows) for rows in groups.values()}


@st.composite
def runs(draw, repeats: bool = False):
    """Prompts, steps and true groups of a run whose groups are whole and stand together."""
    size = draw(st.integers(2, 6))
    prompts, steps, groups = [], [], []
    for step in range(draw(st.integers(1, 4))):
        pool = st.integers(0, 5)
        drawn = draw(st.lists(pool, min_size=2, max_size=4, unique=not repeats))
        for prompt in drawn:
            group = groups[-1] + 1 if groups else 0
            prompts += [prompt] * size
            steps += [step] * size
            groups += [group] * size
    return size, np.array(prompts), np.array(steps), np.array(groups)


@given(runs(repeats=True))
def test_blocks_of_a_declared_size_are_found_again(run) -> None:
    size, prompts, steps, groups = run
    found = rebuild(prompts, steps, "blocks", size)
    if found.group is None:
        # One text stands for four groups or more, and most of its step.
        worst = max(np.bincount(prompts[steps == s]).max() for s in np.unique(steps))
        assert worst >= 4 * size
        assert found.notes
        return
    assert partition(found.group) == partition(groups)
    assert found.size == size


@given(runs(), st.randoms(use_true_random=False))
def test_shuffled_rows_are_grouped_by_prompt_and_step(run, random) -> None:
    _, prompts, steps, groups = run
    order = list(range(len(prompts)))
    random.shuffle(order)
    order.sort(key=lambda row: steps[row])
    found = rebuild(prompts[order], steps[order], "prompt")
    assert found.group is not None
    assert partition(found.group) == partition(groups[order])


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=40),
    st.none() | st.integers(-1, 600),
    st.sampled_from(["blocks", "prompt"]),
)
def test_a_group_is_always_of_one_prompt_in_one_step(pairs, size, how) -> None:
    steps = np.array(sorted(step for step, _ in pairs), dtype=np.int64)
    prompts = np.array([prompt for _, prompt in pairs], dtype=np.int64)
    found = rebuild(prompts, steps, how, size)
    assert found.notes
    if found.group is None:
        assert found.size == 0
        return
    assert found.group.shape == prompts.shape
    for rows in partition(found.group):
        at = sorted(rows)
        assert len(set(zip(prompts[at].tolist(), steps[at].tolist(), strict=True))) == 1
        assert len(rows) <= found.size


def test_partial_groups_are_kept_and_said() -> None:
    prompts = np.repeat([0, 1, 2], [4, 4, 3])
    found = by_prompt(prompts, np.zeros(11, int))
    assert found.size == 4
    assert partition(found.group) == partition(prompts)
    assert any("1 of 3 groups hold fewer than 4 rows" in note for note in found.notes)


def test_a_prompt_drawn_twice_in_mixed_order_is_left_out_where_it_is_rare() -> None:
    rare = np.concatenate([np.repeat(np.arange(1, 30), 4), np.zeros(8, int)])
    rng = np.random.default_rng(0)
    order = rng.permutation(len(rare))
    found = by_prompt(rare[order], np.zeros(len(rare), int))
    assert (found.group < 0).sum() == 8
    assert set(rare[order][found.group < 0]) == {0}
    often = np.repeat([0, 1, 2], [8, 4, 4])[rng.permutation(16)]
    refused = by_prompt(often, np.zeros(16, int), 4)
    assert refused.group is None
    assert "not separable into groups of 4" in refused.notes[0]


def test_one_text_for_a_whole_step_is_no_prompt() -> None:
    for how in ("blocks", "prompt"):
        for size in (None, 8):
            found = rebuild(np.zeros(1024, int), np.zeros(1024, int), how, size)
            assert found.group is None, (how, size)
            assert "one prompt text covers 1024 rows" in " ".join(found.notes)


def test_declared_sizes_that_are_none() -> None:
    for size in (-3, 0, 1, LARGEST + 1):
        assert rebuild(np.repeat([0, 1], 4), np.zeros(8, int), "prompt", size).group is None


@given(runs())
def test_ids_unique_in_the_run_are_kept(run) -> None:
    _, prompts, steps, groups = run
    assert regroup(prompts, steps, groups, "blocks") is None


@given(runs())
def test_ids_that_start_again_are_told_apart_by_step(run) -> None:
    _, prompts, steps, groups = run
    within = np.array([g - groups[steps == s].min() for g, s in zip(groups, steps, strict=True)])
    found = regroup(prompts, steps, within, "blocks")
    collide = len(np.unique(within)) < len(np.unique(groups))
    assert (found is not None and found.own == "by step") == collide


def test_groups_that_a_trainer_spread_over_steps_keep_their_ids() -> None:
    groups = np.repeat(np.arange(6), 4)
    steps = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], 8))
    order = np.argsort(steps, kind="stable")
    assert regroup(groups[order], steps[order], groups[order], "blocks") is None


def test_ids_that_every_row_has_for_itself_are_not_taken() -> None:
    prompts, steps = np.repeat([0, 1], 4), np.zeros(8, int)
    found = regroup(prompts, steps, np.arange(8), "blocks")
    assert found.own == "dropped"
    assert partition(found.group) == partition(prompts)
    assert regroup(np.arange(8), steps, np.arange(8), "blocks") is None


def test_rows_without_an_id_are_rebuilt() -> None:
    prompts = np.repeat([0, 1], 4)
    found = regroup(prompts, np.zeros(8, int), np.full(8, -1), "blocks")
    assert partition(found.group) == partition(prompts)
    assert regroup(prompts[:0], prompts[:0], prompts[:0], "blocks").group is None
