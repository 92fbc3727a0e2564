"""Photograph the studio: its pages on the demonstration's model, for README and docs/how-to/serving.md.

    python docs/pictures/make_studio.py runs/demo

The model folder is the one that `saccade demo` trains. Chromium is needed.
"""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from saccade.serving import Models, create_app, listen
from saccade.serving.http.server import make_server

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
SENTENCE = "The+cat+ate+the+mouse+because+it+was+hungry."
CUT = f"/ask?m=demo&t={SENTENCE}&a=encoder.1.self&h=mean&row=6&col=1&cut=encoder.1.self:6:1"
CHOSEN = ".handle[data-pointed]"  # the scissors of the link that decides
AFTER = ".scene-answer + .scene-answer"  # the second answer
#: File, address, width, height, colours, what is there when the page has come to rest, and what is clicked then.
SHOTS = (
    ("studio-learn-1.png", "/learn?s=links", 1280, 800, "light", ".scene-picture[data-ready]", None),
    ("studio-learn-2.png", "/learn?s=cut", 1280, 800, "light", ".scene-picture[data-ready]", CHOSEN),
    ("studio-learn-3.png", "/learn?s=own", 1280, 800, "dark", ".scene-picture[data-ready]", None),
    ("studio-ask.png", CUT, 1280, 860, "light", ".heads[data-ready]", None),
    ("studio-walk.png", "/walk", 1280, 800, "light", ".step table", None),
    ("studio-map.png", "/map?m=demo", 1280, 800, "dark", ".map[data-level]", None),
)


def main() -> None:
    folder = Path(sys.argv[1])
    models = Models()
    models.add(folder, "demo")
    listening = listen("127.0.0.1", 0)
    server = make_server(create_app(models, runs=folder.parent))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            for name, address, width, height, colours, ready, clicked in SHOTS:
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=colours, reduced_motion="reduce"
                )
                page = context.new_page()
                page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}{address}")
                page.wait_for_selector(ready)
                if clicked is not None:
                    page.locator(clicked).click()
                    page.wait_for_selector(AFTER)
                    page.wait_for_function("() => document.querySelector('.scene-heads > p')?.textContent")
                photograph(page, HERE / name)
                context.close()
            browser.close()
    finally:
        server.should_exit = True
        thread.join()
        models.close()


def photograph(page: Page, path: Path) -> None:
    """When nothing is loading any more; in 256 colours, which are enough for a page and a third of the bytes."""
    page.wait_for_load_state("networkidle")
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
