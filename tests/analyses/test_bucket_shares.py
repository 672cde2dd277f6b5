"""Shares of many buckets at once, their trend over steps, and the place of an update in its batch."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import rollouts, write

from audit.analyses.bucket_shares import (
    BINS,
    FEW,
    Bucket,
    by_code,
    by_rank,
    parts,
    prompt_sums,
    standard_error,
    trend,
)
from audit.analyses.inner_updates import first_update, inner_update
from audit.facts.rows import RunRows
from audit.facts.tokenpass.breakdowns import parse
from audit.stats import ratio_of_sums

RESPONSES = st.lists(
    st.tuples(st.integers(-1, 3), st.integers(0, 5), st.integers(0, 9), st.integers(0, 4)),
    min_size=1,
    max_size=40,
)


@given(RESPONSES)
def test_buckets_are_sums_by_code(rows: list[tuple[int, int, int, int]]) -> None:
    code, prompt, tokens, zeroed = (np.array(column) for column in zip(*rows, strict=True))
    zeroed = np.minimum(zeroed, tokens)
    names = list("abcd")
    found = by_code(names, code, zeroed, tokens, prompt)
    for at, bucket in enumerate(found):
        inside = [(z, t) for c, z, t in zip(code, zeroed, tokens, strict=True) if c == at]
        total = int(sum(t for _, t in inside))
        assert (bucket.part, bucket.tokens) == (sum(z for z, _ in inside), total)
        assert bucket.value.n == sum(t > 0 for _, t in inside)
        assert bucket.value.value == (pytest.approx(bucket.part / total) if total else None)
    spread = [np.where(code == at, tokens, 0) for at in range(4)]
    again = parts(names, [np.where(code == at, zeroed, 0) for at in range(4)], spread, prompt)
    assert [(b.name, b.part, b.tokens, b.value) for b in again] == [
        (b.name, b.part, b.tokens, b.value) for b in found
    ]


def test_many_prompts_give_the_interval_that_one_bucket_alone_has() -> None:
    rng = np.random.default_rng(1)
    prompt = np.repeat(np.arange(3 * FEW), 4)
    tokens = rng.integers(1, 20, size=len(prompt))
    zeroed = rng.binomial(tokens, 0.2)
    code = np.arange(len(prompt)) % 2
    for at, bucket in enumerate(by_code(["a", "b"], code, zeroed, tokens, prompt)):
        alone = ratio_of_sums(*(np.where(code == at, x, 0) for x in (zeroed, tokens)), prompt, bucket.value.n)
        assert bucket.value.value == pytest.approx(alone.value)
        assert bucket.value.low == pytest.approx(alone.low)
        assert bucket.value.high == pytest.approx(alone.high)


def test_one_prompt_has_no_interval_and_no_error() -> None:
    one = np.ones(3)
    [bucket] = by_code(["a"], np.zeros(3, dtype=int), one, 2 * one, np.zeros(3, dtype=int))
    assert (bucket.value.value, bucket.value.low) == (0.5, None)
    assert standard_error(one, 2 * one, np.zeros(3, dtype=int)) is None
    assert by_code([], np.zeros(3, dtype=int), one, one, np.zeros(3, dtype=int)) == []


def test_a_trend_is_the_weighted_line_through_the_steps(tmp_path: Path) -> None:
    rows = RunRows.read(write(tmp_path / "run", rollouts(steps=15, epochs=1)))
    assert rows.facts is not None
    rng = np.random.default_rng(0)
    tokens = rows.facts["loss_tokens"].astype(float)
    above = tokens * (0.1 + 0.02 * rows.step) + rng.normal(size=len(tokens))
    found = trend(rows, np.ones(len(tokens), dtype=bool), above, tokens)
    slope, _ = np.polyfit(rows.step, above / tokens, 1, w=np.sqrt(tokens))
    assert found.slope.value == pytest.approx(slope * np.ptp(rows.step))
    assert found.slope.excludes(0.0)
    assert sum(point.tokens for point in found.points) == tokens.sum()
    assert found.points[0].name == "1"
    flat = trend(rows, rows.step == 1, above, tokens)
    assert flat.slope.value is None


def test_prompt_sums_leave_out_nothing() -> None:
    assert prompt_sums(np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2])).tolist() == [2.0, 0.0, 5.0]


def test_updates_are_ranked_within_their_sampled_batch(tmp_path: Path) -> None:
    rows = rollouts(steps=4, groups=2, epochs=2)
    for row in rows:
        # Each sampled batch takes two updates a pass, one for each slot: ranks 0 to 3.
        batch = (row["step"] - 1) // 2
        slot = int(row["group_id"].split("-")[1])
        row["generation_batch"] = batch
        row["update"] = 4 * batch + 2 * row["epoch"] + slot
    of = RunRows.read(write(tmp_path / "run", rows))
    assert inner_update(of).tolist() == [row["update"] % 4 for row in rows]
    first = first_update(of, np.ones(of.num_rows, dtype=bool))
    assert first is not None
    assert first.responses == sum(row["update"] % 4 == 0 for row in rows)
    bare = RunRows.read(write(tmp_path / "bare", rollouts(steps=3, epochs=1)))
    assert set(inner_update(bare).tolist()) == {0}
    assert first_update(bare, np.zeros(bare.num_rows, dtype=bool)) is None


@given(st.text() | st.from_regex(r'\["(within|beyond|on_grid|placeholder)",.{0,30}', fullmatch=True))
def test_no_name_makes_the_reader_of_breakdowns_fail(name: str) -> None:
    found = parse(name)
    assert found is None or type(found).__name__ in {"Within", "Beyond", "OnGrid", "Placeholder"}


def test_a_bucket_can_hold_what_is_not_finite() -> None:
    [bucket] = by_code(
        ["a"], np.zeros(2, dtype=int), np.array([math.inf, 1.0]), np.array([1.0, 1.0]), np.array([0, 1])
    )
    assert isinstance(bucket, Bucket)
    assert bucket.value.value is None


@pytest.mark.parametrize(("ranks", "buckets"), [(3, 3), (BINS, BINS), (3000, BINS)])
def test_many_ranks_are_binned_and_lose_nothing(ranks: int, buckets: int) -> None:
    rank = np.repeat(np.arange(1, ranks + 1), 2)
    above, below = (rank % 3).astype(float), np.full(len(rank), 4.0)
    found = by_rank("inner update", rank, above, below, rank % 7)
    assert len(found) == buckets
    ends = []
    for bucket in found:
        first, _, last = bucket.name.removeprefix("inner update").lstrip("s").partition("–")
        inside = [a for r, a in zip(rank, above, strict=True) if int(first) <= r <= int(last or first)]
        assert (bucket.part, bucket.value.n) == (sum(inside), len(inside))
        ends += [int(first), int(last or first)]
    assert (ends[0], ends[-1], ends) == (1, ranks, sorted(ends))
