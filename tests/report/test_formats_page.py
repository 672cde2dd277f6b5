"""docs/formats.md follows from the registry."""

from __future__ import annotations

from pathlib import Path

from audit.importers import IMPORTERS
from audit.importers.generic.columns import ALIASES
from audit.report.formats import described, page_text
from audit.schema import BY_NAME

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def test_the_page_is_current() -> None:
    held = PAGE.read_text(encoding="utf-8")
    assert held == page_text(IMPORTERS), "stale: run python -m audit.report.formats"


def test_every_format_says_what_it_holds_and_lacks() -> None:
    for each in described(IMPORTERS):
        assert f"## {each.name}\n" in page_text(IMPORTERS)
        assert set(each.holds) <= set(BY_NAME), each.name
        if each.name != "generic":
            assert each.holds, f"{each.name}: Importer.holds is empty"
            assert each.cannot, each.name


def test_every_alias_is_on_the_page() -> None:
    text = page_text(IMPORTERS)
    for names in ALIASES.values():
        for name in names.split():
            assert name in text


def test_a_format_without_rewards_reaches_no_tier() -> None:
    for each in described(IMPORTERS):
        assert (each.tier >= 1) == ("reward" in each.holds), each.name
