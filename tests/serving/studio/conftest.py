"""The studio in a real browser, against a real server; the network beyond this machine is cut."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright
from servers import Running
from studio_pages import OpenStudio

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PATIENCE = 30_000  # milliseconds: a machine may be busy with other things
#: What Chromium writes when the server refuses something, which a test may want to see.
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: THE STUDIO WAS NOT TESTED")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def open_studio(browser: Browser, running: Running) -> Iterator[OpenStudio]:
    """Opens an address; at the end no error was told, and nothing was asked of another machine."""
    complaints: list[str] = []
    contexts = []

    def opened(
        address: str,
        *,
        width: int = 1200,
        dark: bool = False,
        url: str | None = None,
        may_refuse: bool = False,
        until: str = "html[data-ready]",
    ) -> Page:
        base = url or running.url
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)

        def guard(route: Route) -> None:
            if urlsplit(route.request.url).netloc == urlsplit(base).netloc:
                route.fallback()
            else:
                complaints.append(f"asked for {route.request.url}")
                route.abort()

        context.route("**/*", guard)
        page = context.new_page()

        def listen(kind: str, text: str) -> None:
            if kind in ("error", "warning") and not (may_refuse and REFUSED.match(text)):
                complaints.append(text)

        page.on("console", lambda message: listen(message.type, message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(base + address)
        page.wait_for_selector(until)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
