"""The studio in a real browser, against a real server; the network beyond this machine is cut."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright
from servers import Running, post
from studio_pages import OPTIONS, SENTENCE, OpenStudio

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
PATIENCE = 30_000  # milliseconds: a machine may be busy with other things
#: What Chromium writes when the server refuses something or is not there, which a test may want to see.
REFUSED = re.compile(
    r"Failed to load resource: (the server responded with a status of (4\d\d|503)|net::ERR_CONNECTION_REFUSED)"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: THE STUDIO WAS NOT TESTED")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One for all pages of a module, so that the files of the page are fetched once."""
    made = browser.new_context(accept_downloads=True)
    made.set_default_timeout(PATIENCE)
    yield made
    made.close()


@dataclass
class Studio:
    """Opens pages, and remembers what they should not have done."""

    context: BrowserContext
    url: str
    complaints: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def open(
        self,
        address: str,
        *,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        url: str | None = None,
        may_refuse: bool = False,
        until: str = "html[data-ready]",
    ) -> Page:
        """The page at an address, once it is ready; its server may refuse something only if that is expected."""
        base = url or self.url
        self._forget()
        page = self.context.new_page()
        self.pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.on("request", lambda request: self._see(request, urlsplit(base).netloc))
        page.on("console", lambda message: self._hear(message, may_refuse))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(base + address)
        page.wait_for_selector(until)
        return page

    def close(self) -> None:
        self._forget()
        for page in self.pages:
            page.close()

    def _forget(self) -> None:
        """Remove what earlier pages kept: the next one is opened as if in another browser."""
        for page in self.pages:
            if not page.is_closed():
                page.evaluate("() => localStorage.clear()")

    def _see(self, request: Request, allowed: str) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.netloc != allowed:
            self.complaints.append(f"asked for {request.url}")

    def _hear(self, message: ConsoleMessage, may_refuse: bool) -> None:
        if message.type in ("error", "warning") and not (may_refuse and REFUSED.match(message.text)):
            self.complaints.append(message.text)


@pytest.fixture
def open_studio(context: BrowserContext, running: Running) -> Iterator[OpenStudio]:
    """Opens an address; at the end no error was told, and nothing was asked of another machine."""
    studio = Studio(context, running.url)
    yield studio.open
    complaints = list(studio.complaints)  # a server of the test may have ended by now, which the page may yet tell
    studio.close()
    assert complaints == []


@pytest.fixture(scope="module")
def look(running: Running) -> dict[str, Any]:
    """What the interface says of the sentence."""
    return post(running.client, "/api/models/tiny/looks", input=SENTENCE, options=OPTIONS)
