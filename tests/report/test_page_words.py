"""A page names no flag, and no line of it breaks before a %."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.report.page_words import on_page, unbroken

HOW = 'in run.json ("objective": "grpo"), or look at the page What if'


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("needs an objective: name one with --objective", f"needs an objective: declare one {HOW}"),
        ("an objective in run.json, or --objective NAME.", f"an objective: declare one {HOW}."),
        ("an objective: declared in run.json, or --objective", f"an objective: declare one {HOW}"),
        ("none; name an objective with --objective.", f"none; declare an objective {HOW}."),
        ("Try --set kl.loss.coefficient=0.04.", "Try kl.loss.coefficient=0.04 (page What if)."),
        ("--set a.b=c --set d=1 takes it", "a.b=c (page What if) d=1 (page What if) takes it"),
        ("--set abc: expected FIELD=VALUE", "abc: expected FIELD=VALUE"),
        ("all: rlaudit length RUN --objective NAME.", "all: rlaudit length RUN --objective NAME."),
        ("\x1b[2J", "\\x1b[2J"),
    ],
)
def test_hints_of_flags_become_what_a_page_offers(said: str, shown: str) -> None:
    assert on_page(said) == shown


def test_paths_begin_below_the_directory() -> None:
    root = Path("/logs/team")
    assert on_page("/logs/team/a/run.json: no objective", root) == "a/run.json: no objective"
    assert on_page("/logs/team: no objective", root) == "no objective"
    assert on_page("/logs/teams/a: no", root) == "/logs/teams/a: no"
    # A command is typed somewhere else.
    assert on_page("As in rlaudit import /logs/team/a DEST", root) == "As in rlaudit import /logs/team/a DEST"


def test_a_number_stays_with_its_percent() -> None:
    assert unbroken("95 % by prompt, [94, 98] %") == "95\u00a0% by prompt, [94, 98]\u00a0%"
