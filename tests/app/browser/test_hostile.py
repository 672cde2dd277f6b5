"""A log whose texts are markup, Markdown, formulas and control characters: all of it is shown as text."""

from __future__ import annotations

import pytest
from visit import MAIN, PATHS, Browsers, Window

RUN = "hostile"


@pytest.fixture(scope="module")
def window(browsers: Browsers) -> Window:
    return browsers.window()


@pytest.mark.parametrize("path", PATHS)
def test_text_stays_text(window: Window, path: str) -> None:
    page = window.go(f"{path}?run={RUN}" + ("&run=grpo-seed1" if path == "compare" else ""))
    window.picture(f"hostile {path}")
    main = page.locator(MAIN)
    for selector in ("img[onerror]", "img[src='x']", "script", "svg[onload]", ".katex", "iframe"):
        assert main.locator(selector).count() == 0, selector
    leads = page.locator("a[href]").evaluate_all("all => all.map(a => new URL(a.href).host)")
    assert set(leads) <= {page.url.split("/")[2]}
    assert main.locator("strong", has_text="bold").count() == 0
    said = page.locator("body").inner_text()
    assert not set("\x00\x1b\u202e\u2066") & set(said)
    assert "onerror" not in page.evaluate(
        "Array.from(document.querySelectorAll('[onerror]'), e => 'onerror').join()"
    )
    window.is_clean()


def test_it_is_shown_at_all(window: Window) -> None:
    page = window.go(f"search?run={RUN}")
    shown = page.locator(MAIN).inner_text()
    assert "<img src=x onerror=alert(1)>" in shown
    assert "**bold** $x^2$" in shown
    assert "\\u202e" in shown
    assert len(shown) < 200_000
    window.is_clean()


def test_a_token_of_a_million_characters_is_no_page_of_a_million(window: Window) -> None:
    page = window.go(f"tokens?run={RUN}&step=1")
    assert "A" * 20 in page.locator("body").inner_html()
    assert len(page.locator(MAIN).inner_html()) < 500_000
    window.is_clean()
