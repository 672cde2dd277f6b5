"""Tables of the terminal: within the width, and nothing of a cell lost."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from audit.report.text.rows import Rows
from audit.report.text.shared import Page

NAMES = ["a-run-of-a-team-with-a-long-name", "b", "c-1"]


def laid_out(width: int) -> list[str]:
    page = Page(Console(file=io.StringIO(), width=width))
    titles = ("Runs", "", "cluster", "configuration", "reward", "truncated share", "responses")
    rows = Rows(*titles, right=(2, 4, 5, 6), whole=(1, 3))
    for number, name in enumerate(NAMES):
        rows.add(
            str(number), name, "1", "trl-grpo-sequence-level", "0.444", "0.0724", "7,680", note=f"of {name}"
        )
    rows.add_to(page)
    return [line.plain for line in page.lines]


@pytest.mark.parametrize("width", [48, 60, 72, 80, 81, 100, 200])
def test_a_table_stays_within_its_width(width) -> None:
    lines = laid_out(width)
    least = 7 * 6 + 6 * 2
    assert max(map(len, lines)) <= max(width, least + 2)
    held = "".join("".join(line.split()) for line in lines)
    wide = "".join("".join(line.split()) for line in laid_out(200))
    assert sorted(held) == sorted(wide)


@pytest.mark.parametrize("width", [80, 100])
def test_words_are_whole_where_other_columns_can_give_way(width) -> None:
    said = "\n".join(laid_out(width))
    for word in ("cluster", "truncated", "responses", "reward", "7,680", "0.0724"):
        assert word in said
