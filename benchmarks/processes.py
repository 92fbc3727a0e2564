"""Compares one server process with two, and overloads the server.

    python benchmarks/processes.py runs/demo

Each process computes with one thread. The clients run in a process of low priority, so that they take little time from
the server; each sends one sentence at a time over a connection that it keeps. The machine's load average is printed
too: on a busy machine neither figure means much.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

REFUSED_PAUSE = 0.05  # seconds that a client waits after a 429


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--many", type=int, default=640, help="number of clients that overload the server")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--load", help=argparse.SUPPRESS)  # the port, for the process of low priority
    options = parser.parse_args()
    if options.load:
        print(json.dumps(asyncio.run(load(options.load, options.clients, options.seconds, json.loads(options.model)))))
        return
    rates = []
    for processes in (1, 2):
        with server(options.model, processes) as port:
            measure(port, options.clients, 5)  # warm up
            found = measure(port, options.clients, options.seconds)
            rates.append(found["200"] / options.seconds)
            print(f"{processes} process(es), {options.clients} clients: {rates[-1]:.1f} answers/s, {found}, {busy()}")
    print(f"two processes against one: {rates[1] / rates[0]:.2f}x (aim: 1.5x)")
    for processes in (1, 2):
        with server(options.model, processes) as port:
            found = measure(port, options.many, options.seconds)
            print(f"{processes} process(es), {options.many} clients: {found}, {busy()}")
    print("(aim: only 200 and 429, none lost, /health p99 at most 500 ms)")


def busy() -> str:
    return f"load average {os.getloadavg()[0]:.1f}"


@contextlib.contextmanager
def server(model: str, processes: int) -> Iterator[int]:
    command = [sys.executable, "-m", "saccade.cli", "serve", f"model={model}", "--port", "0", "--no-browser"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, "--processes", str(processes)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().split()[3].rstrip("/").rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGTERM)


def measure(port: int, clients: int, seconds: float) -> dict[str, Any]:
    """What the clients get in this time, and how long /health takes meanwhile."""
    from saccade.data.grammar import generate  # not in the process of low priority, where it would take long

    sentences = json.dumps([example.source_text for example in generate(100, 7, "test")])
    command = ["nice", "-n", "19", sys.executable, __file__, sentences, "--load", str(port), "--clients", str(clients)]
    health = []
    with subprocess.Popen([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            began = time.perf_counter()
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/health")
            assert connection.getresponse().read()
            connection.close()
            health.append(time.perf_counter() - began)
            time.sleep(0.1)
        assert process.stdout is not None
        counts: dict[str, Any] = json.loads(process.stdout.read())
    health.sort()
    return counts | {"health p99": f"{1000 * health[int(0.99 * len(health))]:.0f} ms of {len(health)}"}


async def load(port: str, clients: int, seconds: float, sentences: list[str]) -> dict[str, int]:
    seen, until = Counter[str](), time.monotonic() + seconds
    await asyncio.gather(*(ask(port, sentences[number % len(sentences)], until, seen) for number in range(clients)))
    return dict(sorted(seen.items()))


async def ask(port: str, sentence: str, until: float, seen: Counter[str]) -> None:
    body = json.dumps({"inputs": [sentence]}).encode()
    head = f"POST /api/models/model/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    request = f"{head}Content-Type: application/json\r\n\r\n".encode() + body
    connection = None
    while time.monotonic() < until:
        try:
            connection = connection or await asyncio.open_connection("127.0.0.1", int(port))
            status, is_kept = await exchange(*connection, request)
        except (OSError, asyncio.IncompleteReadError) as error:
            status, is_kept = f"lost ({type(error).__name__})", False
        seen[status] += 1
        if not is_kept and connection is not None:
            connection[1].close()
            connection = None
        if status == "429":
            await asyncio.sleep(REFUSED_PAUSE)
    if connection is not None:
        connection[1].close()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[str, bool]:
    """The status of an answer that is read to its end, and whether the connection stays open."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length:")[2].split("\r\n")[0])
    await reader.readexactly(length)
    return head.split()[1], "connection: close" not in head


if __name__ == "__main__":
    main()
