"""Compares one server process with two, and overloads the server.

    python benchmarks/processes.py runs/demo
    nice -n -19 python benchmarks/processes.py runs/demo --lower 4    # on a busy machine, as root

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
import statistics
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
    parser.add_argument("--seconds", type=float, default=8, help="length of each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of one process and of two, in turns")
    parser.add_argument(
        "--lower", type=int, default=19, help="by how much the priority of the clients is lower than the server's"
    )
    parser.add_argument("--overload-seconds", type=float, default=60)
    parser.add_argument("--beam", type=int, help="beam size of the translations; by default the model's own")
    parser.add_argument("--joined", type=int, default=1, help="number of sentences in each text")
    parser.add_argument("--load", help=argparse.SUPPRESS)  # the port, for the process of low priority
    options = parser.parse_args()
    if options.load:
        print(json.dumps(asyncio.run(load(options.load, options.clients, options.seconds, json.loads(options.model)))))
        return
    sentences = texts(options.joined)
    body = {} if options.beam is None else {"options": {"beam": options.beam}}
    with server(options.model, 1) as one, server(options.model, 2) as two:
        rates: dict[int, list[float]] = {one: [], two: []}
        for port in rates:
            measure(port, sentences, body, options.clients, 3, options.lower)  # warm up
        for _ in range(options.rounds):
            for port in rates:
                found = measure(port, sentences, body, options.clients, options.seconds, options.lower)
                rates[port].append(found["200"] / options.seconds)
                print(f"{1 + (port == two)} process(es), {options.clients} clients: {found}, {busy()}", flush=True)
    medians = [statistics.median(found) for found in rates.values()]
    print(f"answers/s, medians: {medians[0]:.1f} and {medians[1]:.1f}")
    print(f"two processes against one: {medians[1] / medians[0]:.2f}x (aim: 1.5x)", flush=True)
    for processes in (1, 2):
        with server(options.model, processes) as port:
            found = measure(port, texts(1), {}, options.many, options.overload_seconds, options.lower)
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


def texts(joined: int) -> list[str]:
    from saccade.data.grammar import generate  # not in the process of low priority, where it would take long

    every = [example.source_text for example in generate(100 + joined, 7, "test")]
    return [" ".join(every[start : start + joined]) for start in range(100)]


def measure(
    port: int, sentences: list[str], body: dict[str, Any], clients: int, seconds: float, lower: int
) -> dict[str, Any]:
    """What the clients get in this time, and how long /health takes meanwhile."""
    given = json.dumps([json.dumps({"inputs": [sentence], **body}) for sentence in sentences])
    command = ["nice", "-n", str(lower), sys.executable, __file__, given, "--load", str(port)]
    command += ["--clients", str(clients)]
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


async def load(port: str, clients: int, seconds: float, bodies: list[str]) -> dict[str, int]:
    loop, seen = asyncio.get_running_loop(), Counter[str]()
    waiting = [loop.create_future() for _ in range(clients)]
    until = time.monotonic() + seconds
    for number, done in enumerate(waiting):
        client = Client(int(port), bodies[number % len(bodies)].encode(), until, seen, done)
        await client.connect()
    await asyncio.gather(*waiting)
    return dict(sorted(seen.items()))


class Client(asyncio.Protocol):
    """Sends the same request again and again, and counts the answers by status; reads no more of them than it must, so
    that the clients leave the processor to the server."""

    def __init__(self, port: int, body: bytes, until: float, seen: Counter[str], done: asyncio.Future[None]) -> None:
        head = f"POST /api/models/model/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        self.request = f"{head}Content-Type: application/json\r\n\r\n".encode() + body
        self.port, self.until, self.seen, self.done = port, until, seen, done
        self.received = b""
        self.is_waiting = False  # for an answer
        self.transport: asyncio.Transport

    async def connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self.port)
        except OSError as error:
            self.seen[f"lost ({type(error).__name__})"] += 1
            self.done.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        if time.monotonic() >= self.until:
            self.transport.close()
        elif not self.transport.is_closing():
            self.is_waiting = True
            self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        head = head.lower()
        if not end or len(body) < int(head.partition(b"content-length:")[2].split(b"\r\n")[0]):
            return
        status = head[9:12].decode()
        self.received, self.is_waiting = b"", False
        self.seen[status] += 1
        if b"connection: close" in head:
            self.transport.close()
        elif status == "429":
            asyncio.get_running_loop().call_later(REFUSED_PAUSE, self.ask)
        else:
            self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_waiting:
            self.seen[f"lost ({type(exc).__name__})"] += 1
        if time.monotonic() >= self.until:
            self.done.set_result(None)
        else:
            self.received, self.is_waiting = b"", False
            self.reconnecting = asyncio.ensure_future(self.connect())


if __name__ == "__main__":
    main()
