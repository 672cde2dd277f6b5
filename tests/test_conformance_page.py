"""docs/conformance.md holds every case, within its bound, and was made from the cases as they stand.

The frameworks themselves are not needed here: ``make conformance`` runs them and writes the page.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conformance.case import BOUNDS, Case
from conformance.cases import CASES
from conformance.fingerprint import fingerprint

PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(text: str) -> dict[tuple[str, str, str], list[str]]:
    cells = [
        [c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "
    ]
    return {(c[0], c[1], c[2]): c[3:] for c in cells[1:]}


def test_the_page_is_not_stale(text: str) -> None:
    made_from = re.search(r"<!-- fingerprint: ([0-9a-f]{16}) -->", text)
    assert made_from is not None
    assert made_from[1] == fingerprint(CASES), (
        "cases or fields of an objective changed: run `make conformance`"
    )


def test_the_page_has_every_case_once(rows: dict[tuple[str, str, str], list[str]]) -> None:
    assert len({case.id for case in CASES}) == len(CASES)
    assert set(rows) == {(case.framework, case.version, case.name) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_ours_equals_theirs(case: Case, rows: dict[tuple[str, str, str], list[str]]) -> None:
    advantage, scaled, token, how, dialect = rows[case.framework, case.version, case.name]
    assert max(float(advantage), float(scaled), float(token)) <= BOUNDS[case.precision]
    assert how.startswith(case.verified)
    assert dialect in ("same", "refused", "–")
