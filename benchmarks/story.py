"""Estimates how long a person takes for the story of the Learn page, scenes 1 to 3: read, cut a link, ask a sentence.

    python benchmarks/story.py runs/demo

No person is measured. A browser goes through the story as one would, and three kinds of time are added:

- reading, at 238 words per minute (the mean of adults who read silently; Brysbaert 2019). Every line that appears is
  read once; lines that were on the page before are not read again;
- acting, by the keystroke-level model (Card, Moran and Newell 1980): 1.35 s to decide, 1.1 s to point, 0.2 s to click,
  0.28 s for a key;
- waiting for the page, which is measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable

from playwright.sync_api import Page, sync_playwright

WORDS_PER_SECOND = 238 / 60
DECIDE, POINT, CLICK, KEY = 1.35, 1.1, 0.2, 0.28
CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
TYPED = "the cat sees the dog."
#: Everything on the page that is text of the scene, and not a button or the number of a scene; words of the sentence
#: are buttons too, but they are read.
LINES = """() => [...document.querySelectorAll("main *")]
    .filter((one) => one.checkVisibility() && !one.closest("button, a, summary, .scene-list, input, svg"))
    .filter((one) => [...one.childNodes].some((part) => part.nodeType === 3 && part.data.trim()))
    .map((one) => one.closest("p, li, td, th, h1, h2, h3, caption, figcaption") ?? one)
    .filter((one, at, all) => all.indexOf(one) === at)
    .map((one) => one.innerText.trim())"""


class Story:
    """Goes through the story, and adds up the seconds."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.seen: set[str] = set()
        self.total = 0.0

    def part(self, what: str, acting: float, action: Callable[[], object], until: Callable[[], object]) -> None:
        """Do one action, wait for its effect, and read what is new on the page."""
        began = time.perf_counter()
        action()
        until()
        waited = time.perf_counter() - began
        self.page.wait_for_timeout(1500)  # what comes later is read, but nobody waits for it
        lines = [part for text in self.page.evaluate(LINES) for part in text.split("\n")]
        lines.append(" ".join(self.page.locator(".link-word:visible").all_inner_texts()))
        fresh = [line for line in lines if line not in self.seen]
        self.seen.update(fresh)
        words = sum(any(letter.isalnum() for letter in word) for line in fresh for word in line.split())
        seconds = acting + waited + words / WORDS_PER_SECOND
        self.total += seconds
        print(f"| {what} | {words} | {acting:.1f} | {waited:.1f} | {seconds:.1f} |", flush=True)
        for line in fresh:
            print(f"    {line!r}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    options = parser.parse_args()
    command = [sys.executable, "-m", "saccade.cli", "serve", options.model, "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[3]
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            tell(Story(page), page, address)
            browser.close()
        finally:
            server.terminate()


def tell(story: Story, page: Page, address: str) -> None:
    answer = page.locator(".scene-answer:visible").first
    print("| part | new words | acting, s | waiting, s | seconds |\n|---|---|---|---|---|")
    story.part("1: open the page", 0.0, lambda: page.goto(address), answer.wait_for)
    following = page.get_by_role("link", name="next").or_(page.get_by_role("button", name="next"))
    to_next = DECIDE + POINT + CLICK
    story.part("2: next", to_next, following.click, page.get_by_text("Cut one link").wait_for)
    link = page.locator("[data-link][data-pointed]")
    story.part("2: cut the link", to_next, link.click, page.locator(".scene-answer").nth(1).wait_for)
    story.part("3: next", to_next, following.click, page.get_by_text("Your own sentence").wait_for)
    given = page.get_by_role("textbox").first
    acting = DECIDE + POINT + CLICK + KEY * len(TYPED)
    story.part(
        "3: type a sentence",
        acting,
        lambda: given.fill(TYPED),
        page.locator(".scene-answer", has_text="chien").wait_for,
    )
    print(f"| **all** | | | | **{story.total:.0f}** |")


if __name__ == "__main__":
    main()
