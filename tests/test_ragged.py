"""Ragged sums against loops."""

from __future__ import annotations

import torch
from fuzz import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.ragged import Layout, group_sum

ragged = st.lists(st.lists(st.floats(-9, 9), max_size=5), max_size=7)
quickly = settings(deadline=None, max_examples=examples(100))


def layout_of(rows: list[list[float]]) -> tuple[Layout, torch.Tensor]:
    layout = Layout.from_lengths(torch.tensor([len(row) for row in rows], dtype=torch.int64))
    return layout, torch.tensor([v for row in rows for v in row], dtype=torch.float64)


@given(ragged)
@quickly
def test_a_layout_knows_its_rows(rows: list[list[float]]) -> None:
    layout, values = layout_of(rows)
    assert layout.num_rows == len(rows)
    assert layout.num_values == len(values)
    assert layout.lengths.tolist() == [len(row) for row in rows]
    assert layout.rows.tolist() == [i for i, row in enumerate(rows) for _ in row]
    assert layout.offsets.dtype == layout.rows.dtype == torch.int64
    for i, row in enumerate(rows):
        assert values[layout.offsets[i] : layout.offsets[i + 1]].tolist() == row


@given(ragged)
@quickly
def test_sums_and_spreads(rows: list[list[float]]) -> None:
    layout, values = layout_of(rows)
    expected = torch.tensor([sum(row) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(layout.sum(values), expected, rtol=1e-13, atol=1e-13)
    assert layout.sum(values).dtype == torch.float64
    per_row = torch.arange(len(rows), dtype=torch.float64)
    assert layout.spread(per_row).tolist() == [float(i) for i, row in enumerate(rows) for _ in row]
    assert layout.sum(torch.ones_like(values)).tolist() == [float(len(row)) for row in rows]


def test_lengths_of_any_integer_type() -> None:
    layout = Layout.from_lengths(torch.tensor([2, 0, 3], dtype=torch.int32))
    assert layout.offsets.tolist() == [0, 2, 2, 5]
    assert layout.offsets.dtype == torch.int64


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-9, 9)), max_size=20))
@quickly
def test_group_sum_is_a_loop(pairs: list[tuple[int, float]]) -> None:
    index = torch.tensor([i for i, _ in pairs], dtype=torch.int64)
    values = torch.tensor([v for _, v in pairs], dtype=torch.float64)
    expected = [sum(v for i, v in pairs if i == g) for g in range(5)]
    torch.testing.assert_close(
        group_sum(values, index, 5), torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=1e-13
    )
