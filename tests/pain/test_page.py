"""docs/checks.md lists every id that check may give."""

from __future__ import annotations

import re
from pathlib import Path

from audit.analyses.checks.registry import CHECKS
from audit.report.checks_page import LOG_IDS, page_text, write_page

ROOT = Path(__file__).parents[2]
ID = re.compile(r'"([a-z]+\.[a-z]+(?:-[a-z]+)*)"')
FIRST = {code.split(".")[0] for code in LOG_IDS} | {c.split(".")[0] for e in CHECKS for c in e.ids}


def test_the_page_is_what_the_checks_say(tmp_path) -> None:
    held = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert held == page_text(), "stale: run python -m audit.report.checks_page"
    assert write_page(tmp_path).read_text(encoding="utf-8") == held


def test_every_id_is_listed_once() -> None:
    listed = [code for entry in CHECKS for code in entry.ids] + list(LOG_IDS)
    assert len(set(listed)) == len(listed)


def test_no_id_of_the_source_is_left_out() -> None:
    sources = [*(ROOT / "audit/analyses/checks").glob("*.py"), ROOT / "audit/analyses/check.py"]
    sources += [ROOT / f"audit/logs/{n}_checks.py" for n in ("row", "token", "file")]
    sources.append(ROOT / "audit/logs/validate.py")
    found = {code for path in sources for code in ID.findall(path.read_text(encoding="utf-8"))}
    listed = {code for entry in CHECKS for code in entry.ids} | set(LOG_IDS)
    assert {code for code in found if code.split(".")[0] in FIRST} <= listed
