"""Measures how long a one-sentence request takes while another client sends as much as it can.

    python benchmarks/fairness.py runs/demo

Starts ``saccade serve`` on a free port of this machine and sends one sentence a hundred times, first without any other
client and then while another client (with another address, in a process of low priority) requests as much as it can, in
several ways. The aim is that the 99th percentile stays below ten times that without the other client, or one second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx

from saccade.data.grammar import generate

SENTENCES = [example.source_text for example in generate(400, 7, "test")]
LONG = " ".join(SENTENCES)
MODEL = "/api/models/model"
#: The sizes of the largest walkthrough.
SIDES = {"inputs": (64, 1025), "source": (64, 1025), "W_query": (1025, 64), "W_key": (1025, 64), "W_value": (1025, 64)}
#: What the other client sends repeatedly on each of its connections: path and body; a request without a body is a GET.
#: {look} stands for the id of a look at a long text.
WORST: dict[str, tuple[str, dict[str, Any] | None]] = {
    "128 texts of 16,000 characters, beam 32": (
        f"{MODEL}/predict",
        {"inputs": [LONG[:16_000]] * 128, "options": {"beam": 32}},
    ),
    "as much as is taken, beam 32": (f"{MODEL}/predict", {"inputs": SENTENCES[:128], "options": {"beam": 32}}),
    "one long text, beam 16": (f"{MODEL}/predict", {"inputs": [LONG[:10_000]], "options": {"beam": 16}}),
    "quick texts, beam 16": (f"{MODEL}/predict", {"inputs": SENTENCES[:3], "options": {"beam": 16}}),
    "quick texts, the same options": (f"{MODEL}/predict", {"inputs": SENTENCES[:8]}),
    "drawn texts": (f"{MODEL}/predict", {"inputs": SENTENCES[:128], "options": {"sample": True, "tries": 16}}),
    "looks": (f"{MODEL}/looks", {"input": SENTENCES[0]}),
    "long looks": (f"{MODEL}/looks", {"input": LONG[:4000]}),
    "streams": (f"{MODEL}/stream", {"input": LONG[:4000]}),
    "bodies of 4 MB": (f"{MODEL}/predict", {"inputs": ["a" * 20_001] * 190}),
    "as many lists as are taken": (f"{MODEL}/predict", {"inputs": [[]] * 99_000}),
    "a million numbers": (f"{MODEL}/predict", {"inputs": [0.5] * 1_000_000}),
    "texts to read": (f"{MODEL}/maps", {"text": LONG}),
    "the longest texts to read": (f"{MODEL}/maps", {"text": (LONG * 40)[:220_000]}),
    "the best 32 of many": (f"{MODEL}/predict", {"inputs": SENTENCES[:128], "options": {"beam": 32, "n_best": 32}}),
    "wrong values in a long list": ("/v1/completions", {"model": "model", "prompt": [0] * 1_300_000}),
    "walkthroughs": ("/api/walkthrough", {name: [[0.5] * wide] * high for name, (high, wide) in SIDES.items()}),
    "walkthroughs of no numbers": (
        "/api/walkthrough",
        {name: [["a"] * wide] * high for name, (high, wide) in SIDES.items()},
    ),
    "translations of HTML": (
        "/translate",
        {"q": ["<b>x</b>" * 2000] * 100, "source": "en", "target": "fr", "format": "html"},
    ),
    "maps of words": (f"{MODEL}/words/map?others=100&words=the,cat,dog,man,woman,old,black,white", None),
    "pictures": ("/api/looks/{look}/export?name=decoder.0.cross&format=svg", None),
    "measures": ("/api/looks/{look}/measures", None),
    "runs": ("/api/runs/model", None),
    "a word replaced by a long text": (
        f"{MODEL}/looks",
        {"input": SENTENCES[0], "replace": [SENTENCES[0].split()[0], LONG[:15_000]]},
    ),
    "candidates": ("/api/looks/{look}/candidates", None),
    "effects": (f"{MODEL}/effects", {"input": LONG[:1000]}),
    "metrics": ("/metrics", None),
    "the description of the API": ("/openapi.json", None),
    "nothing": ("/api/nothing", None),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--connections", type=int, default=64, help="connections of the other client")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=list(WORST), choices=list(WORST), metavar="WAY")
    options = parser.parse_args()
    command = [sys.executable, "-m", "saccade.cli", "serve", f"model={options.model}", "--port", "0", "--no-browser"]
    worst = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[3].rstrip("/")
            ask(url, 5)
            alone = percentile(ask(url, options.requests))
            print(f"{'':<45} {'p99':>8}  statuses that the other client got")
            print(f"{'alone':<45} {1000 * alone:>5.0f} ms", flush=True)
            for way in options.only:
                taken, statuses = beside(url, *WORST[way], options.connections, options.requests)
                worst = max(worst, taken)
                print(f"{way:<45} {1000 * taken:>5.0f} ms  {statuses}", flush=True)
        finally:
            process.send_signal(signal.SIGTERM)
    limit = max(10 * alone, 1.0)
    print(f"worst {1000 * worst:.0f} ms; aim: at most {1000 * limit:.0f} ms")
    sys.exit(int(worst > limit))


def percentile(times: list[float], share: float = 0.99) -> float:
    return sorted(times)[max(0, round(share * len(times)) - 1)]


def ask(url: str, count: int) -> list[float]:
    """The seconds that each of this many requests takes, one after another."""
    times = []
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        for sentence in itertools.islice(itertools.cycle(SENTENCES), count):
            began = time.perf_counter()
            client.post(f"{MODEL}/predict", json={"inputs": [sentence]}).raise_for_status()
            times.append(time.perf_counter() - began)
    return times


def beside(
    url: str, path: str, body: dict[str, Any] | None, connections: int, count: int
) -> tuple[float, dict[str, int]]:
    """The 99th percentile while another client sends these requests, and the statuses that it got."""
    if "{look}" in path:
        found = httpx.post(f"{url}{MODEL}/looks", json={"input": LONG[:3000]}, timeout=120, trust_env=False)
        path = path.format(look=found.raise_for_status().json()["id"])
    context = multiprocessing.get_context("spawn")
    end, told = context.Event(), context.Queue()
    other = context.Process(target=attack, args=(url, path, body, connections, end, told))
    other.start()
    told.get()  # it has begun
    taken = percentile(ask(url, count))
    end.set()
    statuses = told.get()
    other.join()
    return taken, statuses


def attack(url: str, path: str, body: dict[str, Any] | None, connections: int, end: Event, told: Any) -> None:
    os.nice(10)
    seen: Counter[str] = Counter()
    content = None if body is None else json.dumps(body).encode()
    method, headers = "GET" if body is None else "POST", {"Content-Type": "application/json"}
    started = threading.Barrier(connections + 1)

    def again_and_again() -> None:
        transport = httpx.HTTPTransport(local_address="127.0.0.2")
        started.wait()
        with httpx.Client(base_url=url, transport=transport, timeout=httpx.Timeout(120, read=5)) as client:
            while not end.is_set():
                try:
                    status = client.request(method, path, content=content, headers=headers).status_code
                    seen[str(status)] += 1
                    if status != 200:
                        end.wait(0.1)
                except httpx.HTTPError as error:  # it waited for five seconds and tries again
                    seen[type(error).__name__] += 1

    threads = [threading.Thread(target=again_and_again) for _ in range(connections)]
    for one in threads:
        one.start()
    started.wait()
    end.wait(1.0)
    told.put("begun")
    for one in threads:
        one.join()
    told.put(dict(seen))


if __name__ == "__main__":
    main()
