"""Every page, light and wide, dark and narrow: nothing fails, nothing sticks out, everybody can read it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from visit import MAIN, PATHS, Browsers, Window, violations

ONE, TWO = "?run=grpo-seed1", "?run=grpo-seed1&run=dr-grpo-seed1"
VIEWS = [
    *(f"compare{TWO}&view={view}" for view in ("Over+steps", "Weights", "Same+prompts")),
    f"compare{TWO}&run=dapo-seed1",
]
PAGES = [path + (TWO if path == "compare" else ONE) for path in PATHS]


@pytest.fixture(scope="module")
def windows(browsers: Browsers) -> Iterator[dict[str, Window]]:
    return {
        "light": browsers.window(),
        "dark": browsers.window(dark=True),
        "light, narrow": browsers.window(width=390),
        "dark, narrow": browsers.window(width=390, dark=True),
    }


def looks_right(window: Window, path: str, look: str) -> None:
    window.go(path)
    name = path.replace("?run=", "_").replace("&run=", "_").replace("&view=", "_")
    window.picture(f"{name} {look}")
    window.is_clean()
    widths = window.page.locator(MAIN).evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert widths[0] <= widths[1], "the page scrolls sideways"
    assert violations(window.page) == []
    window.errors.clear()


@pytest.mark.parametrize("path", PAGES)
def test_every_page_light_and_dark_wide_and_narrow(windows: dict[str, Window], path: str) -> None:
    for look in ("light", "dark, narrow"):
        looks_right(windows[look], path, look)


@pytest.mark.parametrize("path", VIEWS)
def test_every_view_of_compare(windows: dict[str, Window], path: str) -> None:
    looks_right(windows["light"], path, "light")


@pytest.mark.parametrize("look", ["dark", "light, narrow"])
def test_the_other_looks_of_compare(windows: dict[str, Window], look: str) -> None:
    looks_right(windows[look], f"compare{TWO}", look)


@pytest.mark.parametrize(("look", "ground"), [("light", "255"), ("dark", "23")])
def test_the_theme_is_that_of_the_system(windows: dict[str, Window], look: str, ground: str) -> None:
    windows[look].go()
    colour = (
        windows[look]
        .page.locator('[data-testid="stApp"]')
        .evaluate("e => getComputedStyle(e).backgroundColor")
    )
    assert colour.startswith(f"rgb({ground}, ")
