"""How long the dashboard lets people wait, and how large its server grows, in a real browser."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.directory import make_team
from bench.page import Section
from bench.process import python, run
from bench.settings import Settings
from bench.sizes import FOLDER, ROOT
from bench.timing import Spread

COLUMNS = ("what", "measured", "goal")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking")
PAGES = (
    *("Compare", "Length", "Groups & prompts", "Clipping", "KL", "Mismatch", "Tokens", "What if"),
    *("Search", "SQL", "Report", "Runs"),
)
CLICKS, QUICK_CLICKS = 200, 20
MAIN = '[data-testid="stMain"]'
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
PATIENCE = 300_000  # milliseconds
MEMORY_GOAL = 1.5e9


def measure(settings: Settings) -> Section:
    """Open the first page in fresh servers, walk through all pages, then click about at random."""
    runs, steps = (10, 100) if settings.quick else (100, 200)
    team = warm_team(runs, steps)
    section = Section(
        "Dashboard",
        COLUMNS,
        intro=(
            f"{runs} runs of {steps} steps each (one file a step, 8 responses a file) whose facts are "
            "cached, seen by Chromium on the same machine. First page: from the request on, in a new process "
            "of the server and a new window; the start of the server is not in it. Page switch: from the "
            "click in the menu until everything is drawn; two runs are chosen, and all pages were seen once."
        ),
    )
    paints, wholes, again, starts = [], [], [], []
    for _ in range(settings.repeats):
        with _served(team) as (place, _, started), _window() as page:
            starts.append(started)
            paint, whole = _first_page(page, place, runs)
            paints.append(paint)
            wholes.append(whole)
            other = page.context.browser.new_page()
            again.append(_first_page(other, place, runs)[0])
    n = len(paints)
    section.rows.append([f"table of all runs, first rows, n = {n}", Spread.of(paints).text(), "2 s"])
    section.rows.append([f"every row read, n = {n}", Spread.of(wholes).text(), ""])
    section.rows.append([f"the same from a second window, n = {n}", Spread.of(again).text(), ""])
    section.rows.append([f"start of the server, n = {n}", Spread.of(starts).text(), ""])
    with _served(team) as (place, pid, _), _window() as page:
        _first_page(page, place, runs)
        page.goto(f"{place}/compare?run=run-000&run=run-001")
        _drawn(page, "Compare")
        first = {name: _switch(page, name) for name in PAGES}
        switches: dict[str, list[float]] = {name: [] for name in PAGES}
        for _ in range(settings.repeats):
            for name in PAGES:
                switches[name].append(_switch(page, name))
        everything = [value for values in switches.values() for value in values]
        section.rows.append([f"page switch, n = {len(everything)}", Spread.of(everything).text(), "1 s"])
        section.rows += [
            [f"to {name}, n = {len(values)}; first time {first[name]:.1f} s", Spread.of(values).text(), ""]
            for name, values in switches.items()
        ]
        clicks = QUICK_CLICKS if settings.quick else CLICKS
        before = _resident(pid)
        _click_about(page, place, clicks, runs)
        after = _resident(pid)
        section.rows.append(["memory of the server before the clicks", f"{before / 1e6:,.0f} MB", ""])
        section.rows.append(
            [
                f"memory of the server after {clicks} random clicks, n = 1",
                f"{after / 1e6:,.0f} MB",
                f"{MEMORY_GOAL / 1e6:,.0f} MB",
            ]
        )
    section.notes.append(
        "A random click: seven in ten go to another page of the menu, three in ten to another run or pair."
    )
    return section


def warm_team(runs: int, steps: int) -> Path:
    """Return a team directory whose runs have their facts; one that is there is taken as it is."""
    team = FOLDER / f"team-{runs}-{steps}"
    if len(list(team.glob("*/run.json"))) != runs:
        make_team(runs, steps)
    run(python("-m", "bench.inside", "overviews", team, "--repeats", 1))
    return team


@contextmanager
def _served(team: Path) -> Iterator[tuple[str, int, float]]:
    """Serve a directory: (address, process id, seconds of the start)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = python("-m", "audit", "dashboard", team, "--port", port, "--no-browser")
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        server = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        try:
            place = f"http://127.0.0.1:{port}"
            _answers(f"{place}/_stcore/health", server)
            yield place, server.pid, time.perf_counter() - start
        finally:
            server.terminate()
            server.wait(30)


def _answers(url: str, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.05)
    msg = f"the dashboard ended with exit code {server.returncode}"
    raise RuntimeError(msg)


@contextmanager
def _window() -> Iterator[Any]:
    """Open a new window of a new browser."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        msg = "no Chromium on PATH; install one: apt-get install -y chromium"
        raise RuntimeError(msg)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        yield page
        browser.close()


def _first_page(page: Any, place: str, runs: int) -> tuple[float, float]:
    """Seconds until the table is there, and until every row of it was read."""
    start = time.perf_counter()
    page.goto(place)
    page.locator(f'{MAIN} [data-testid="stDataFrame"] canvas').first.wait_for()
    paint = time.perf_counter() - start
    page.get_by_text(f"{runs} runs, 0 chosen").wait_for()
    return paint, time.perf_counter() - start


def _drawn(page: Any, title: str) -> None:
    page.locator(f"{MAIN} h1", has_text=title).first.wait_for()
    page.wait_for_selector(IDLE)
    page.wait_for_function(f"""!document.querySelector('{MAIN} [data-stale="true"]')""", polling=30)


def _switch(page: Any, title: str) -> float:
    start = time.perf_counter()
    page.locator('[data-testid="stSidebarNav"] a', has_text=title).first.click()
    _drawn(page, title)
    return time.perf_counter() - start


def _click_about(page: Any, place: str, clicks: int, runs: int) -> None:
    """Click in the menu, and open links to other runs."""
    draw = random.Random(0)
    for _ in range(clicks):
        title = draw.choice(PAGES)
        if draw.random() < 0.3:
            pair = draw.sample(range(runs), 2)
            page.goto(f"{place}/compare?" + "&".join(f"run=run-{number:03d}" for number in pair))
            _drawn(page, "Compare")
        else:
            _switch(page, title)


def _resident(pid: int) -> int:
    """Bytes of memory of a process now."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0
