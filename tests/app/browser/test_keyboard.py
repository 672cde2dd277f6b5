"""Without a mouse: the picker and the pages are reached by Tab, and Enter works."""

from __future__ import annotations

from visit import MAIN, Browsers, expect

FOCUSED = """(() => {
    const at = document.activeElement
    return (at.getAttribute("role") ?? at.tagName) + " " + (at.getAttribute("aria-label") ?? at.innerText)
})()"""


def tab_to(page, wanted: str, most: int = 40) -> None:
    """Press Tab until the element of that name has the focus."""
    passed = []
    for _ in range(most):
        page.keyboard.press("Tab")
        passed.append(" ".join(page.evaluate(FOCUSED).split()))
        if passed[-1].startswith(wanted):
            return
    raise AssertionError(f"{wanted} is not among {passed}")


def test_a_page_opens_by_tab_and_enter(browsers: Browsers) -> None:
    window = browsers.window()
    page = window.go("?run=grpo-seed1")
    page.locator("body").focus()
    tab_to(page, "A straighten Length")
    page.keyboard.press("Enter")
    expect(page.locator(f"{MAIN} h1")).to_have_text("Length")
    window.drawn()
    assert page.url.endswith("length?run=grpo-seed1")
    window.is_clean()


def test_a_run_is_picked_by_its_first_letters(browsers: Browsers) -> None:
    window = browsers.window()
    page = window.go("search")
    page.locator("body").focus()
    tab_to(page, "combobox Runs")
    page.keyboard.type("rloo")
    page.keyboard.press("Enter")
    page.wait_for_url("**run=rloo-seed1*")
    window.drawn()
    assert "rloo-seed1" in window.text()
    window.is_clean()
