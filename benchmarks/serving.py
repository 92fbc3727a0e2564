"""The server under a stop-watch: first answers, batches, refusals, a long map, and memory under ten times the load.

    python benchmarks/serving.py runs/demo

Starts ``saccade serve`` on a free port of this machine, asks it, ends it, and prints a table. Times are those of a
client, HTTP included.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from saccade.data.grammar import generate

SENTENCES = [example.source_text for example in generate(400, 7, "test")]
JSON = {"content-type": "application/json"}
HOSTILE = {
    "10 MB": b'{"inputs": ["' + b"a" * 10_000_000 + b'"]}',
    "deeply nested": b'{"inputs": ' + b"[" * 200_000 + b"}",
    "no UTF-8": b'{"inputs": ["\xff"]}',
    "NaN": b'{"inputs": ["a"], "options": {"length_penalty": NaN}}',
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=16_384, help="of the text that is mapped")
    parser.add_argument("--clients", type=int, default=32)
    options = parser.parse_args()
    command = [sys.executable, "-m", "saccade.cli", "serve", f"model={options.model}", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3]
        with httpx.Client(base_url=url, timeout=600, trust_env=False) as client:
            first_answers(client)
            batches(client, url, options.clients)
            refusals(client)
            long_map(client, options.tokens)
            overload(url, process.pid)
        process.send_signal(signal.SIGTERM)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def ask(client: httpx.Client, sentence: str, path: str = "predict") -> httpx.Response:
    body = {"inputs": [sentence]} if path == "predict" else {"input": sentence}
    return client.post(f"/api/models/model/{path}", json=body)


def first_answers(client: httpx.Client) -> None:
    for path in ("predict", "looks"):
        times = [timed(lambda s=sentence, p=path: ask(client, s, p))[0] for sentence in SENTENCES[:20]]
        print(f"{path}: median {1000 * statistics.median(times):.0f} ms, worst {1000 * max(times):.0f} ms")


def batches(client: httpx.Client, url: str, clients: int) -> None:
    some = SENTENCES[:96]
    alone, _ = timed(lambda: [ask(client, sentence) for sentence in some])

    def each(number: int) -> None:
        with httpx.Client(base_url=url, timeout=600, trust_env=False) as own:
            for sentence in some[number::clients]:
                ask(own, sentence).raise_for_status()

    threads = [threading.Thread(target=each, args=(number,)) for number in range(clients)]
    together, _ = timed(lambda: [thread.start() for thread in threads] + [thread.join() for thread in threads])
    whole, _ = timed(lambda: client.post("/api/models/model/predict", json={"inputs": some}).raise_for_status())
    print(f"one by one: {len(some) / alone:.1f} sentences/s")
    print(f"{clients} clients at once: {len(some) / together:.1f} sentences/s ({alone / together:.1f} times)")
    print(f"in one request: {len(some) / whole:.1f} sentences/s ({alone / whole:.1f} times)")


def refusals(client: httpx.Client) -> None:
    for name, content in HOSTILE.items():
        seconds, answer = timed(
            lambda body=content: client.post("/api/models/model/predict", content=body, headers=JSON)
        )
        print(f"refusal of {name}: {answer.status_code} in {1000 * seconds:.0f} ms")


def long_map(client: httpx.Client, tokens: int) -> None:
    text = " ".join(SENTENCES * (tokens // 1000))[: 5 * tokens]
    began, events = time.perf_counter(), []
    with client.stream("POST", "/api/models/model/maps", json={"text": text}) as answer:
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data:")]
    look = events[-1]["look"]
    count = len(look["axes"]["0"]["tokens"])
    print(f"map of {count:,} tokens: read and described in {time.perf_counter() - began:.1f} s")
    path, name = f"/api/looks/{look['id']}", look["layer"]

    def part(kind: str, **query: Any) -> float:
        seconds, found = timed(lambda: client.get(f"{path}/{kind}", params={"name": name, "head": 0, **query}))
        found.raise_for_status()
        return 1000 * seconds

    print(f"first picture: {part('overview', cells=512):.0f} ms")
    print(f"the same in other cells: {part('overview', cell=64):.0f} ms")
    spans = [f"{place}:{place + 256}" for place in range(0, count - 256, count // 12)]
    fresh = [part("tile", rows=span, columns=span) for span in spans]
    again = [part("tile", rows=span, columns="256:512") for span in spans]
    print(
        f"exact tiles of 256 by 256: median {statistics.median(fresh):.0f} ms in new rows, "
        f"{statistics.median(again):.0f} ms in rows seen before"
    )


def overload(url: str, process: int) -> None:
    """Ten times as many clients as may wait, for some seconds."""
    before, statuses, stop = memory(process), Counter[int](), time.monotonic() + 8

    def each(number: int) -> None:
        with httpx.Client(base_url=url, timeout=600, trust_env=False) as own:
            while time.monotonic() < stop:
                statuses[ask(own, SENTENCES[number % 400]).status_code] += 1

    threads = [threading.Thread(target=each, args=(number,)) for number in range(640)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"640 clients for 8 s: {dict(statuses)}; memory {before} MB before, {memory(process)} MB after")


def memory(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) // 1024


if __name__ == "__main__":
    main()
