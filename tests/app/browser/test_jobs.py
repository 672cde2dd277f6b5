"""The three jobs, done by hand in a browser; and their links, opened by somebody else."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from visit import MAIN, Browsers, Window, expect

import audit
from audit.analyses.explain import explain
from audit.logs import open_run

A, B = "grpo-seed1", "dr-grpo-seed1"


def choose(window: Window, *runs: str) -> None:
    """Pick runs at the side, as one types them."""
    box = window.page.get_by_role("combobox", name="Runs")
    for run in runs:
        box.click()
        box.fill(run)
        window.page.get_by_role("option", name=run, exact=True).click()
        window.page.keyboard.press("Escape")
        window.drawn()


def chosen(window: Window) -> list[str]:
    return parse_qs(urlsplit(window.page.url).query).get("run", [])


def test_why_two_runs_differ(browsers: Browsers, root: Path) -> None:
    window = browsers.window()
    window.go()
    choose(window, A, B)
    assert chosen(window) == [A, B]
    window.page.locator(MAIN).get_by_role("link", name="Compare 2").click()
    expect(window.page.locator(f"{MAIN} h1")).to_have_text("Compare")
    window.drawn()
    x = explain(open_run(root / A), open_run(root / B))
    said = " ".join(window.text().split())
    assert x.verdict.text.split(". ")[0] in said
    assert x.verdict.causes
    for cause in x.verdict.causes:
        assert cause.id in said
    assert "scale.kind" in said
    assert "Compare" in window.page.title()
    assert A in window.page.title()
    assert chosen(window) == [A, B]

    window.page.get_by_role("radio", name="Weights").click()
    window.page.get_by_text("By length of the response").wait_for()
    window.drawn()
    expect(window.page.locator(f"{MAIN} [data-testid='stVegaLiteChart']")).to_have_count(3)
    window.is_clean()

    other = browsers.window(dark=True)
    other.go(window.page.url.removeprefix(f"{browsers.address}/"))
    assert other.text().split() == window.text().split()
    assert chosen(other) == [A, B]
    other.is_clean()


def test_is_length_rewarded_by_accident(browsers: Browsers, root: Path) -> None:
    window = browsers.window()
    window.go()
    choose(window, B)
    window.page.locator('[data-testid="stSidebarNav"]').get_by_role("link", name="Length").click()
    expect(window.page.locator(f"{MAIN} h1")).to_have_text("Length")
    window.drawn()
    verdict = audit.length_bias(open_run(root / B)).verdict
    assert " ".join(verdict.split()) in " ".join(window.text().split())
    window.is_clean()
    other = browsers.window()
    other.go(window.page.url.removeprefix(f"{browsers.address}/"))
    assert other.text().split() == window.text().split()


def test_what_lies_in_the_directory(browsers: Browsers, root: Path) -> None:
    window = browsers.window()
    page = window.go()
    cells = page.locator(f'{MAIN} [data-testid="stDataFrame"] [role="gridcell"]')
    expect(cells.filter(has_text=A).first).to_be_attached()
    shown = cells.all_text_contents()
    names = sorted(path.name for path in root.iterdir())
    assert all(any(name in text for text in shown) for name in names)
    # The box of the first row: tables are a canvas.
    corner = page.locator(f'{MAIN} [data-testid="stDataFrame"] canvas').first.bounding_box()
    page.mouse.click(corner["x"] + 18, corner["y"] + 35 + 18)
    page.wait_for_url("**?run=*")
    window.drawn()
    assert chosen(window) == names[:1]
    page.get_by_placeholder("find by name").fill("gspo")
    page.keyboard.press("Enter")
    page.get_by_text(f"1 of {len(names)} runs").wait_for()
    window.is_clean()
    other = browsers.window()
    other.go(page.url.removeprefix(f"{browsers.address}/"))
    expect(other.page.get_by_placeholder("find by name")).to_have_value("gspo")
    expect(other.page.get_by_text(f"1 of {len(names)} runs, 1 chosen")).to_be_visible()


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "<img src=x onerror=alert(1)>"])
def test_an_address_that_names_no_run_is_refused(browsers: Browsers, name: str) -> None:
    window = browsers.window()
    page = window.go(f"length?run={name}")
    expect(page.get_by_role("alert").first).to_contain_text("Refused")
    assert name in window.text()
    assert page.locator(f"{MAIN} img").count() == 0
    assert "root:" not in window.text()
    window.is_clean()
