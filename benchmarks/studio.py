"""Times the studio and its server, and compares the times with our aims.

    python benchmarks/studio.py runs/demo

Starts ``saccade serve`` on a free port of this machine, uses its page in Chromium, sends requests as programs do, stops
it and prints a table. The times are what a person or a client waits, including the page and HTTP.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
from playwright.sync_api import Page, sync_playwright

from saccade.data.grammar import generate

LONGEST = 6_850  # sentences: about 65,000 tokens for runs/demo, just below the limit of a map
SENTENCES = [example.source_text for example in generate(400, 7, "test")]
PREDICT = "/api/models/model/predict"
JSON = {"content-type": "application/json"}
HOSTILE = {
    "10 MB": b'{"inputs": ["' + b"a" * 10_000_000 + b'"]}',
    "deep nesting": b'{"inputs": ' + b"[" * 200_000 + b"}",
    "broken UTF-8": b'{"inputs": ["\xff"]}',
    "NaN": b'{"inputs": ["a"], "options": {"length_penalty": NaN}}',
}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
#: Records when the user last typed and clicked, and when the server last reported how much of a text it has read.
WATCH = """
  addEventListener('input', () => { window.typed = performance.now(); }, true);
  addEventListener('click', () => { window.clicked = performance.now(); }, true);
  const asked = window.fetch;
  window.fetch = async (path, options) => {
    const answer = await asked(path, options);
    if (String(path).endsWith('/maps')) void follow(answer.clone());
    return answer;
  };
  async function follow(answer) {
    for (const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();;) {
      const { value, done } = await reader.read();
      if (done) return;
      if (window.read === undefined || value.includes('"progress"')) window.read = performance.now();
    }
  }
"""
ANSWERED = """expected => {
  const shown = document.querySelector('.sentence .answer')?.innerText ?? '';
  return shown.split(/\\s+/).join(' ') === expected && performance.now() - window.typed;
}"""
#: The whole text is mapped: nothing is said above its map.
PICTURED = """() => document.querySelector('.map-note[hidden]') && document.querySelector('.map[data-ready=yes]')
  && performance.now() - window.read"""
#: The first words of a long text are mapped, and the page says so.
SEEN = """() => document.querySelector('.map-note')?.textContent.includes('map of the first')
  && document.querySelector('.map[data-ready=yes]') && performance.now() - window.clicked"""
#: A page shows a model's answer; the time is counted from the start of the navigation.
PAINTED = """() => document.querySelector('.scene-answer b, .sentence .answer')?.textContent
  && document.querySelector('.strip path') && performance.now()"""
CHANGED = """() => document.querySelector('.chips li') && document.querySelector('.was:not([hidden])')
  && performance.now() - window.clicked"""
RESTORED = "() => !document.querySelector('.chips li')"
COUNT_FRAMES = """() => {
  [window.longest, window.last] = [0, performance.now()];
  const frame = () => {
    const now = performance.now();
    [window.longest, window.last] = [Math.max(window.longest, now - window.last), now];
    window.counting = requestAnimationFrame(frame);
  };
  window.counting = requestAnimationFrame(frame);
}"""
STOP_COUNTING = "() => { cancelAnimationFrame(window.counting); return window.longest; }"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument(
        "--words",
        type=int,
        default=14_500,
        help="number of words in the mapped text; the default is 16k tokens for runs/demo",
    )
    parser.add_argument("--clients", type=int, default=32)
    options = parser.parse_args()
    command = [sys.executable, "-m", "saccade.cli", "serve", f"model={options.model}", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[3].rstrip("/")
            many = httpx.Limits(max_connections=None)
            with httpx.Client(base_url=url, timeout=600, trust_env=False, limits=many) as client:
                tell("", "measured", "aim")
                in_the_page(url, client, options.words)
                batches(client, options.clients)
                refusals(client)
                overload(client, process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


def tell(what: str, measured: str, aim: str = "") -> None:
    print(f"{what:<58} {measured:>24}  {aim}", flush=True)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """The milliseconds that the work takes, and its result."""
    began = time.perf_counter()
    result = work()
    return 1000 * (time.perf_counter() - began), result


def spread(times: list[float]) -> str:
    return f"{statistics.median(times):.0f} ms, worst {max(times):.0f} ms"


def in_the_page(url: str, client: httpx.Client, words: int) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        page.add_init_script(WATCH)
        page.set_default_timeout(150_000)
        paints(page, url)
        page.goto(f"{url}/ask?m=model")
        cuts(page)
        answers(page, client)
        tile, count = first_picture(page, f"{url}/map?m=model&words={words}")
        panning(page)
        tiles(client, tile, count)
        pasted(page, url)
        browser.close()


def paints(page: Page, url: str) -> None:
    """The time from the start of the navigation until an answer and the links of a word are on the screen."""
    for name, address in (("Learn", "/learn"), ("Ask", "/ask?m=model")):
        times = []
        for _ in range(8):
            page.goto(url + address)
            times.append(page.wait_for_function(PAINTED).json_value())
        first, *others = times  # the server measures the link that a page opens with once, and remembers it
        tell(f"first useful paint of {name}, median", spread(others), f"≤ 600 ms (the first of all: {first:.0f} ms)")


def cuts(page: Page) -> None:
    """The time from the click on a link until the headline shows the answer without it."""
    page.wait_for_function(PAINTED)
    times = []
    for word in page.locator(".link-word").all()[:8]:
        word.hover()
        page.locator(".handle").first.click()
        times.append(page.wait_for_function(CHANGED).json_value())
        page.get_by_role("button", name=re.compile("undo$")).click()
        page.wait_for_function(RESTORED)
    tell("new headline after a link is cut, median", spread(times), "≤ 400 ms")


def pasted(page: Page, url: str) -> None:
    """The time from pasting the longest text until a part of its map is drawn."""
    page.goto(f"{url}/map?m=model&words=50")
    page.wait_for_selector(".map[data-ready=yes]")
    page.get_by_label("The text").select_option("own")
    page.get_by_label("Your long text").fill(" ".join(itertools.islice(itertools.cycle(SENTENCES), LONGEST)))
    page.get_by_role("button", name="Read this text").click()
    milliseconds = page.wait_for_function(SEEN).json_value()
    said = page.locator(".map-note").inner_text()
    tell("first part of the map of the longest text", f"{milliseconds / 1000:.2f} s", f"≤ 5 s ({said})")


def answers(page: Page, client: httpx.Client) -> None:
    """The time from the last keystroke to the answer, including the pause in which the page waits for more."""
    best = {"beam": 5, "n_best": 5}  # what the page requests
    found = client.post(PREDICT, json={"inputs": SENTENCES[:24], "options": best}).raise_for_status().json()
    expected = [" ".join(one["text"].split()) for one in found["answers"]]
    times = []
    for place in range(1, len(expected)):
        if expected[place] == expected[place - 1]:  # no change would be visible
            continue
        page.get_by_label("Your text").fill(SENTENCES[place])
        times.append(page.wait_for_function(ANSWERED, arg=expected[place]).json_value())
    tell("answer in the page after the last keystroke, median", spread(times), "≤ 250 ms")


def first_picture(page: Page, address: str) -> tuple[str, int]:
    """The time from the end of the forward pass until all visible tiles are drawn; returns a URL and the tokens."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/overview?" in request.url else None)
    page.goto(address)
    milliseconds = page.wait_for_function(PICTURED).json_value()
    size = page.locator(".map-frame p.quiet").inner_text()
    tell(f"first picture of {size}", f"{milliseconds / 1000:.2f} s", "≤ 3 s")
    return asked[-1], int(size.split()[0].replace(",", ""))  # the first are of the map of the first words


def panning(page: Page) -> None:
    """Drag the map at three zoom levels, from the whole map to exact weights."""
    box = page.locator(".map").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for closer in (2, 2, 3):  # the number of times that the scale is doubled
        for _ in range(closer):
            page.get_by_role("button", name="Larger").click()
        page.mouse.move(x, y)
        page.evaluate(COUNT_FRAMES)
        page.mouse.down()
        for across, down in ((-300, -150), (250, 100), (-100, 150), (0, 0)):
            page.mouse.move(x + across, y + down, steps=30)
        page.mouse.up()
        longest = page.evaluate(STOP_COUNTING)
        level = page.locator(".map").get_attribute("data-level")
        tell(f"longest frame while panning, cells of {level}×{level} weights", f"{longest:.0f} ms", "≤ 100 ms")


def tiles(client: httpx.Client, address: str, count: int) -> None:
    """Request exact weights and cells of the map that the page shows."""
    path, given = urlsplit(address).path.rpartition("/")[0], dict(parse_qsl(urlsplit(address).query))

    def part(kind: str, first: int, size: int, **query: Any) -> float:
        span = f"{first}:{first + size}"
        asked = {"name": given["name"], "head": given["head"], "rows": span, "columns": span, **query}
        milliseconds, found = timed(lambda: client.get(f"{path}/{kind}", params=asked))
        found.raise_for_status()
        return milliseconds

    exact = [part("tile", at, 256) for at in range(0, count - 256, count // 24)]
    tell("tile of 256×256 exact weights, median", spread(exact), "≤ 15 ms")
    for cell in (2, 4, 8):
        size = 256 * cell
        pooled = [part("overview", at, size, cell=cell, pool="max") for at in range(0, count - size, size)]
        tell(f"tile of 256×256 cells of {cell}×{cell} weights, median", spread(pooled), "≤ 20 ms")


def ask(client: httpx.Client, sentences: list[str]) -> httpx.Response:
    return client.post(PREDICT, json={"inputs": sentences})


def batches(client: httpx.Client, clients: int) -> None:
    some = SENTENCES[:192]
    alone, _ = timed(lambda: [ask(client, [sentence]).raise_for_status() for sentence in some])

    def each(number: int) -> None:
        for sentence in some[number::clients]:
            ask(client, [sentence]).raise_for_status()

    together, _ = timed(lambda: at_once(each, clients))
    whole, _ = timed(lambda: ask(client, some[:64]).raise_for_status())
    tell("one by one", f"{1000 * len(some) / alone:.1f} sentences/s")
    tell(f"{clients} clients at once", f"{alone / together:.1f} times as fast as one by one", "≥ 3 times")
    tell(
        "64 sentences in one request", f"{alone / len(some) * 64 / whole:.1f} times as fast as one by one", "≥ 3 times"
    )


def at_once(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def refusals(client: httpx.Client) -> None:
    def post(body: bytes, path: str = PREDICT) -> httpx.Response:
        return client.post(path, content=body, headers=JSON)

    for name, content in HOSTILE.items():
        milliseconds, answer = timed(lambda body=content: post(body))
        tell(f"refusing {name}: {answer.status_code}", f"{milliseconds:.0f} ms", "≤ 100 ms")
    path = "/api/models/..%2F..%2Fetc%2Fpasswd/predict"
    milliseconds, answer = timed(lambda: post(b'{"inputs": ["a"]}', path))
    tell(f"refusing a path as a name: {answer.status_code}", f"{milliseconds:.0f} ms", "≤ 100 ms")


def overload(client: httpx.Client, process: int) -> None:
    """Send requests from ten times as many clients as may wait, for some seconds, each with its own connection.

    If threads shared a pool of connections, it could close one that another thread has just taken, and the server would
    be blamed for that.
    """
    before, statuses, stop = memory(process), Counter[str](), time.monotonic() + 8
    assert client.base_url.port is not None

    def each(number: int) -> None:
        body = json.dumps({"inputs": [SENTENCES[number % 400]]})
        connection = HTTPConnection(client.base_url.host, client.base_url.port, timeout=60)
        while time.monotonic() < stop:
            try:
                connection.request("POST", PREDICT, body, JSON)
                answer = connection.getresponse()
                answer.read()
                statuses[str(answer.status)] += 1
            except (OSError, HTTPException) as error:  # neither 200 nor 429; the table shows it
                statuses[type(error).__name__] += 1
                connection.close()
        connection.close()

    at_once(each, 640)
    counts = ", ".join(f"{count} × {status}" for status, count in sorted(statuses.items()))
    tell("640 clients for 8 s", counts, "only 200 and 429")
    tell("memory before and after", f"{before} MB, {memory(process)} MB", "bounded")


def memory(process: int) -> int:
    """Resident megabytes."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


if __name__ == "__main__":
    main()
