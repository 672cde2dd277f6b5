"""A run that is being written: pages follow it, and whoever sits on one keeps their place."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from synthetic import rollouts, write
from visit import MAIN, PATIENCE, Browsers, Window, expect

RUN = "live"
SCROLLED = f"document.querySelector('{MAIN}').scrollTop"


def write_more(run: Path, scratch: Path, steps: int) -> None:
    """Add what a trainer would have written by a later step, as one more file."""
    rows = [row for row in rollouts(steps=steps) if row["step"] > 2 * (steps - 2)]
    write(scratch / RUN, rows, "grpo")
    (made,) = sorted((scratch / RUN / "rollouts").glob("*.parquet"))
    # Copied beside its place first: a reader never sees half a file.
    shutil.copy(made, run / "rollouts" / ".half")
    (run / "rollouts" / ".half").rename(run / "rollouts" / f"{steps:06d}.parquet")


def sit(browsers: Browsers, path: str) -> Window:
    """Open a page, and scroll down on it."""
    window = browsers.window(height=600)
    window.go(path)
    window.page.evaluate(f"{SCROLLED} = 250; window.kept = true")
    return window


def keeps_its_place(window: Window, was: int, address: str) -> None:
    window.drawn()
    assert window.page.evaluate("window.kept"), "the page was loaded anew"
    assert window.page.evaluate(SCROLLED) == was
    assert window.page.url == address
    window.is_clean()


def test_new_steps_come_without_moving_the_reader(browsers: Browsers, root: Path, tmp_path: Path) -> None:
    length = sit(browsers, f"length?run={RUN}")
    length.page.get_by_text("How to read this").click()
    expect(length.page.get_by_text("Correct is:")).to_be_visible()
    length.page.evaluate(f"{SCROLLED} = 250")
    # Drawn by step 12, and again at step 15.
    groups = sit(browsers, f"groups?run={RUN}&view=Prompts&prompt=p9")
    what_if = sit(browsers, f"what-if?run={RUN}&set=scale.kind%3Dnone")
    search = sit(browsers, f"search?run={RUN}&q=a")
    search.page.get_by_label("Prompt contains", exact=True).fill("half ty")
    windows = (length, groups, what_if, search)
    before = [(each.page.evaluate(SCROLLED), each.page.url) for each in windows]
    assert [was for was, _ in before[:3]] == [250, 250, 250]
    step = what_if.page.get_by_role("combobox", name="Step").input_value()
    hits = search.page.get_by_text("responses, 1 to 20")
    found = hits.inner_text()
    lead = length.text()

    write_more(root / RUN, tmp_path, 8)

    expect(hits).not_to_have_text(found, timeout=PATIENCE)
    length.page.wait_for_function(f"before => document.querySelector('{MAIN}').innerText != before", arg=lead)
    expect(groups.page.locator('td[data-name="step"]').filter(has_text=re.compile("^15$"))).to_be_visible(
        timeout=PATIENCE
    )
    for window, (was, address) in zip(windows, before, strict=True):
        keeps_its_place(window, was, address)
    expect(length.page.get_by_text("Correct is:")).to_be_visible()
    assert what_if.page.get_by_role("combobox", name="Step").input_value() == step
    assert what_if.page.get_by_label("Changes", exact=True).input_value() == "scale.kind=none"
    assert search.page.get_by_label("Prompt contains", exact=True).input_value() == "half ty"
