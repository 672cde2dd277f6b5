"""Search: hits are those of a slow loop; texts are cut where the engine matched."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import rollouts, write

from audit.errors import AuditError, MissingColumn
from audit.logs import Run
from audit.logs.search import Search, count_hits, facets, find_hits
from audit.logs.search_marks import AROUND, Piece, pieces

NAMES = ["step", "prompt", "response", "reward", "finish_reason", "group_id", "prompt_id", "sample_index"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return write(tmp_path_factory.mktemp("logs") / "one", rollouts(steps=6, epochs=1))


def slow(run: Run, search: Search) -> list[tuple[int, str, int]]:
    flags = 0 if search.case else re.IGNORECASE
    found = []
    for row in run.responses(NAMES).to_pylist():
        keep = True
        for name in ("prompt", "response"):
            asked = getattr(search, name)
            pattern = asked if search.regex else re.escape(asked)
            keep &= re.search(pattern, row[name], flags) is not None
        for name, (low, high) in (("step", search.steps), ("reward", search.rewards)):
            keep &= (low is None or row[name] >= low) and (high is None or row[name] <= high)
        for asked, name in (
            (search.finish_reason, "finish_reason"),
            (search.group, "group_id"),
            (search.prompt_id, "prompt_id"),
        ):
            keep &= not asked or row[name] == asked
        if keep:
            found.append((row["step"], row["group_id"], row["sample_index"]))
    return sorted(found)


@pytest.mark.parametrize(
    "search",
    [
        Search(),
        Search(response="ab"),
        Search(response="AB"),
        Search(response="AB", case=True),
        Search(response="^a.*d$", regex=True),
        Search(response="a.c"),
        Search(prompt="question 1", response="a"),
        Search(steps=(2, 3), rewards=(0.5, None)),
        Search(finish_reason="length"),
        Search(group="2-1"),
        Search(prompt_id="p3", steps=(None, 4)),
    ],
    ids=str,
)
def test_hits_are_those_of_a_loop(run, search) -> None:
    wanted = slow(run, search)
    assert count_hits(run, search) == len(wanted)
    paged = [find_hits(run, search, page=page, size=7) for page in range(1, len(wanted) // 7 + 2)]
    assert [(hit.step, hit.group_id, hit.sample_index) for page in paged for hit in page] == wanted


def test_what_matched_is_marked_and_the_text_is_whole(run) -> None:
    texts = {
        (r["step"], r["group_id"], r["sample_index"]): r["response"] for r in run.responses(NAMES).to_pylist()
    }
    for hit in find_hits(run, Search(response="a[bc]", regex=True), size=30):
        text = texts[hit.step, hit.group_id, hit.sample_index]
        assert "".join(piece.text for piece in hit.response) == text
        assert [p.text for p in hit.response if p.matched] == re.findall("a[bc]", text)


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "a{1001}", r"(a)\1"])
def test_what_is_no_regular_expression_is_one_clear_error(run, pattern) -> None:
    with pytest.raises(AuditError, match="not a regular expression"):
        count_hits(run, Search(response=pattern, regex=True))


def test_a_missing_column_is_named(run) -> None:
    with pytest.raises(MissingColumn, match="'correct'"):
        count_hits(run, Search(correct=True))
    assert facets(run).missing == ["correct"]


def test_facets_are_the_ranges_of_the_log(run) -> None:
    held = facets(run)
    assert (held.first_step, held.last_step) == (1, 6)
    assert (held.lowest_reward, held.highest_reward) == (0.0, 1.0)
    assert set(held.finish_reasons) == {"stop", "length"}


def test_a_long_search_is_stopped(run) -> None:
    with pytest.raises(AuditError, match="stopped after"):
        count_hits(run, Search(response="a"), seconds=0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(), min_size=1), st.data())
def test_pieces_make_up_the_window(between, data) -> None:
    matches = data.draw(st.lists(st.text(min_size=1), min_size=len(between) - 1, max_size=len(between) - 1))
    text = "".join(b + m for b, m in zip(between, [*matches, ""], strict=True))
    cut = pieces(text, between, matches)
    assert "".join(p.text for p in cut).strip("…") in text or "…" in text
    assert sum(len(p.text) for p in cut) <= AROUND + 2


def test_parts_that_are_not_the_text_mark_nothing() -> None:
    assert pieces("abc", ["a", "x"], ["b"]) == [Piece("abc", False)]
    assert pieces(None, None, None) == []


def test_the_window_begins_before_the_first_match() -> None:
    cut = pieces("x" * 1000 + "hit" + "y" * 1000, ["x" * 1000, "y" * 1000], ["hit"])
    assert [p.text[:1] for p in cut] == ["…", "x", "h", "y", "…"]
    assert [p.text for p in cut if p.matched] == ["hit"]
