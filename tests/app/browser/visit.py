"""A window of the browser that keeps what went wrong in it: errors, dialogs, requests to elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import audit.app
from playwright.sync_api import ConsoleMessage, Dialog, Page, Request, WebSocket, expect, sync_playwright

FLAGS = (
    *("--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    # No name resolves: a page that asks for something elsewhere fails, and is found below.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
PATIENCE = 120_000  # milliseconds: on a busy machine the first page reads logs for a minute
MAIN = '[data-testid="stMain"]'
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
PATHS = sorted(
    "" if file.stem == "runs" else file.stem.replace("_", "-")
    for file in Path(audit.app.__file__).parent.glob("app_pages/[a-z]*.py")
)
"""Address of every page."""
SHOTS = Path(__file__).parents[3] / "out" / "browser"
"""Screenshots, kept where PICTURES is set: to draw every page a second time takes a seventh of the time."""
FRAME = (
    *('[data-testid="stHeader"]', '[data-testid="stElementToolbar"]', "[disabled]"),
    '[data-testid="stDataFrame"]',
    '[data-testid="stVegaLiteChart"] .vega-embed',
)


class Window:
    """One window, and what it noticed."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("websocket", self._socket)

    def go(self, path: str = "") -> Page:
        """Open a path below the dashboard and wait until it is drawn."""
        self.page.goto(f"{self.address}/{path}")
        self.drawn()
        return self.page

    def drawn(self) -> None:
        """Wait until the page has its title and the script has ended."""
        self.page.wait_for_selector(f"{MAIN} h1", timeout=PATIENCE)
        self.page.wait_for_selector(IDLE, timeout=PATIENCE)
        expect(self.page.locator(f'{MAIN} [data-testid="stSkeleton"]')).to_have_count(0, timeout=PATIENCE)
        # An element of the page before stays, marked stale, until the next script has ended.
        expect(self.page.locator(f'{MAIN} [data-stale="true"]')).to_have_count(0, timeout=PATIENCE)

    def text(self) -> str:
        """What the page says."""
        return self.page.locator(MAIN).inner_text()

    def picture(self, name: str) -> None:
        """Keep a picture of the whole page, where somebody wants to look."""
        if not os.environ.get("PICTURES"):
            return
        SHOTS.mkdir(parents=True, exist_ok=True)
        size = self.page.viewport_size
        height = self.page.evaluate(f"document.querySelector('{MAIN}').scrollHeight")
        self.page.set_viewport_size({"width": size["width"], "height": min(height + 50, 4000)})
        self.page.screenshot(path=SHOTS / f"{name}.png")
        self.page.set_viewport_size(size)

    def is_clean(self) -> None:
        """Nothing of ours went wrong."""
        assert self.errors == []
        assert self.dialogs == []
        assert self.elsewhere == []
        assert self.page.locator('[data-testid="stException"]').count() == 0

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not _looks_for_its_base(message):
            self.errors.append(f"{message.text} {message.location.get('url')}")

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        self._asked(request.url)

    def _socket(self, socket: WebSocket) -> None:
        self._asked(socket.url)

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "blob"} and parts.hostname != "127.0.0.1":
            self.elsewhere.append(url)


def _looks_for_its_base(message: ConsoleMessage) -> bool:
    """Whether Streamlit, opened at the address of a page, asked below that page where its server is."""
    parts = urlsplit(message.location.get("url", "")).path.split("/")
    return "404" in message.text and len(parts) == 4 and parts[2] == "_stcore"


class Browsers:
    """A browser, and windows in it that share nothing."""

    def __init__(self, chromium: str, address: str) -> None:
        self.chromium, self.address = chromium, address

    def __enter__(self) -> Browsers:
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=self.chromium, args=list(FLAGS))
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._playwright.stop()

    def window(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> Window:
        """Open a window without cookies, storage or cache."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        context.set_default_timeout(PATIENCE)
        return Window(context.new_page(), self.address)


def violations(page: Page) -> list[str]:
    """Return what axe-core finds serious or critical in what our pages add.

    Looked at: the main part of the page and the picker of runs. Left out is what Streamlit draws itself and
    no page can change: its header and toolbars, the canvas of its tables, the drawing inside of a chart
    (which has a text of ours as its name), and what is disabled, which may be pale.
    """
    from axe_playwright_python.sync_playwright import Axe

    looked = {
        "include": [[MAIN], ['[data-testid="stSidebarUserContent"]']],
        "exclude": [[each] for each in FRAME if page.locator(each).count()],
    }
    found: dict[str, Any] = Axe().run(page, looked).response
    return [
        f"{each['id']}: {node['target']} {node['html'][:200]} {json.dumps(node.get('failureSummary', ''))}"
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"]
    ]
