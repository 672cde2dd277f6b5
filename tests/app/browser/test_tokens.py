"""A token is explained in place: by mouse, by keyboard, and by its link."""

from __future__ import annotations

from visit import MAIN, Browsers, expect

PATH = "tokens?run=grpo-seed1&step=120&sample=5"


def test_a_click_on_a_token_answers_without_loading_the_page(browsers: Browsers) -> None:
    window = browsers.window()
    page = window.go(PATH)
    page.evaluate("window.kept = true")
    page.locator(f'{MAIN} a[href$="token=3"]').click()
    expect(page.get_by_text("Token 3 ·")).to_be_visible()
    page.wait_for_url("**&token=3")
    page.locator(f'{MAIN} a[href$="token=7"]').focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Token 7 ·")).to_be_visible()
    page.wait_for_url("**&token=7")
    window.drawn()
    assert page.evaluate("window.kept"), "the page was loaded anew"
    # The next token is one key further.
    expect(page.locator(f'{MAIN} a[href$="token=7"]')).to_be_focused()
    window.is_clean()
    other = browsers.window(dark=True)
    other.go(page.url.removeprefix(f"{browsers.address}/"))
    expect(other.page.get_by_text("Token 7 ·")).to_be_visible()
    assert other.text().split() == window.text().split()
    other.is_clean()
