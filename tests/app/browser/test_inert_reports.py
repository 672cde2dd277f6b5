"""Report files in a browser: what a log says in them stays text, and no width or theme breaks them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_log import TEXT, write_hostile
from playwright.sync_api import Browser, sync_playwright
from synthetic import rollouts, write
from visit import FLAGS

import audit
from audit.cli.report import measured
from audit.report.files import write_report
from audit.report.length_page import write_length_report
from audit.report.many_page import write_many_report
from audit.report.run_report import run_report
from audit.report.run_report_page import write_run_report

SECTIONS = ("explain", "check", "length", "prompts")
KINDS = ("report", "explain", "many", "length")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of page, of a run whose texts are markup and of one whose name has a megabyte."""
    root = tmp_path_factory.mktemp("reports")
    write_hostile(root / "logs" / "hostile")
    write(root / "logs" / "long", rollouts(steps=4, seed=1), "dr_grpo", run_id="L" * 1_000_000)
    write(root / "logs" / "third", rollouts(steps=4, seed=2), "rloo", run_id=f"{TEXT} third")
    runs = [audit.open_run(path) for path in sorted((root / "logs").iterdir())]
    write_run_report(run_report(runs[:2], SECTIONS, measure=measured), root / "report.html")
    write_report(audit.explain(runs[1], runs[2]), root / "explain.html")
    write_many_report(audit.explain_many(runs), root / "many.html")
    write_length_report(audit.length_bias(runs[2]), root / "length.html")
    return root


@pytest.fixture(scope="module")
def browser(chromium: str) -> Browser:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=FLAGS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_does_nothing_and_fits(folder: Path, browser: Browser, kind: str) -> None:
    path = folder / f"{kind}.html"
    assert path.stat().st_size < 1_500_000
    for theme, width in (("light", 1200), ("dark", 390)):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        page, noticed = context.new_page(), []
        page.on("dialog", lambda dialog, to=noticed: (to.append(dialog.message), dialog.dismiss()))
        page.on("console", lambda message, to=noticed: to.append(message.text))
        page.on("pageerror", lambda error, to=noticed: to.append(str(error)))
        page.on("request", lambda request, to=noticed: to.append(request.url))
        page.goto(path.as_uri())
        assert noticed == [path.as_uri()]
        assert page.locator("script, img, iframe, link, object, [onerror], [onload]").count() == 0
        assert set(page.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href')[0])")) <= {"#"}
        assert page.evaluate("document.documentElement.scrollWidth") == width
        said = page.locator("body").inner_text()
        assert not set("\x00\x1b\u202e\u2066") & set(said)
        assert "<img src=x onerror=alert(1)>" in said
        context.close()
