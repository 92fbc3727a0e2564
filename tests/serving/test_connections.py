"""Clients that are slow, silent or asleep: they lose their connection, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from servers import Runner, Running
from starlette.types import Message

from saccade.serving import Limits, Models, listen
from saccade.serving.http.connections import JoinedWrites
from saccade.serving.http.exchange import SECURITY_HEADERS, Exchange
from saccade.serving.http.places import Crowd
from saccade.serving.http.refusals import Refused
from saccade.serving.state import ServerState

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /api/models/tiny/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def hasty(folders: dict[str, Path], runner: Runner) -> Running:
    """A server that waits for a client for a moment only."""
    models = Models(Limits(client_seconds=0.3))
    models.add(folders["tiny"])
    return runner.start(models)


def connected(running: Running) -> socket.socket:
    address = httpx.URL(running.url)
    return socket.create_connection((address.host, address.port), timeout=60)


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", HEAD], ids=["nothing", "half a line", "half a head"])
def test_a_head_that_does_not_come_is_not_awaited(hasty: Running, sent: bytes) -> None:
    with connected(hasty) as client:
        client.sendall(sent)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_head_after_an_answer_is_not_awaited_either(hasty: Running) -> None:
    with connected(hasty) as client, client.makefile("rb") as answer:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
        client.sendall(b"GET /hea")
        with pytest.raises(ConnectionResetError):
            answer.read()


def test_a_body_that_does_not_come_is_refused_with_a_sentence(hasty: Running) -> None:
    with connected(hasty) as client, client.makefile("rb") as answer:
        client.sendall(HEAD + b'Content-Length: 100\r\nConnection: close\r\n\r\n{"inputs"')
        assert answer.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
        assert answer.read().endswith(b'{"error":"The request did not arrive within 0.3 seconds."}')


def test_an_answer_that_is_not_read_is_given_up(hasty: Running) -> None:
    with connected(hasty) as client:
        client.sendall(b"GET /static/walk/step.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
        waiting = select.poll()
        waiting.register(client, select.POLLERR)  # until the connection is reset
        assert waiting.poll(60_000)
    assert hasty.client.get("/ready").status_code == 200


def test_who_leaves_in_the_middle_of_a_request_is_no_fault(hasty: Running, caplog: pytest.LogCaptureFixture) -> None:
    with connected(hasty) as client, client.makefile("rb") as answer:
        client.sendall(HEAD + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n")
        assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"  # the body is waited for
    while hasty.app.state.metrics.in_flight:
        threading.Event().wait(0.01)
    assert not caplog.records


def test_a_fault_of_the_server_is_said_and_the_connection_stays(
    hasty: Running, caplog: pytest.LogCaptureFixture
) -> None:
    batcher = hasty.models["tiny"].batcher
    batcher.predictor.predict = lambda *_, **__: 1 / 0  # type: ignore[method-assign, assignment]
    with connected(hasty) as client:
        for _ in range(2):
            client.sendall(HEAD + b'Content-Length: 17\r\n\r\n{"inputs": ["a"]}')
            answer = b""
            while not answer.endswith(b"}"):
                answer += client.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 500")
            assert b'{"error":"The server failed to answer this; see its log."}' in answer
    assert "ZeroDivisionError" in caplog.text  # and the log says why


def test_too_many_connections_make_the_oldest_idle_one_of_their_address_go(
    folders: dict[str, Path], runner: Runner
) -> None:
    models = Models(Limits(connections=20))
    models.add(folders["tiny"])
    running = runner.start(models)
    address = httpx.URL(running.url)
    mine = socket.create_connection((address.host, address.port), 60, source_address=("127.0.0.2", 0))
    idle = [connected(running) for _ in range(60)]
    assert running.client.get("/health").status_code == 200
    mine.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")  # another address, so it was let be
    assert mine.recv(100).startswith(b"HTTP/1.1 200")
    closed = [one for one in idle if select.select([one], [], [], 0)[0]]
    assert len(closed) >= 40
    assert idle[0] in closed
    assert idle[-1] not in closed
    for one in (mine, *idle):
        one.close()


def test_refusals_that_are_held_back_keep_nobody_out(runner: Runner) -> None:
    """Their connections count as idle, so that one of them is closed for whoever comes next."""
    running = runner.start(Models(Limits(connections=8, address_bodies=10)))
    running.app.state.refused.size = 10**6  # as if very many had just been refused
    large = b"POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n" + b"x" * 99
    refused = [connected(running) for _ in range(8)]
    for one in refused:
        one.sendall(large)
    while running.app.state.metrics.accepted < 8:
        threading.Event().wait(0.01)
    assert running.client.get("/health").status_code == 200
    for one in refused:
        one.close()


def test_the_more_are_refused_the_later_they_are_told() -> None:
    crowd = Crowd()
    delays = []
    for crowd.size in (0, 64, 256, 512, 9999):
        delays.append(crowd.delay)
    assert delays == [0, 0.5, 2, 4, 4]


def test_a_refused_request_does_not_keep_its_body() -> None:
    received: list[Message] = [{"type": "http.request", "body": b"large"}, {"type": "http.disconnect"}]
    sent: list[Message] = []

    async def receive() -> Message:
        return received.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    async def refuse() -> Message:
        scope = {"type": "http", "method": "POST", "path": "/detect", "headers": []}
        exchange = Exchange(scope, receive, send, ServerState(Models()))
        await exchange.read(99, 60)
        await exchange.refuse(Refused(429, "Full."))
        return await exchange.receive()

    assert asyncio.run(refuse()) == {"type": "http.disconnect"}
    assert sent[0]["status"] == 429


def test_connections_stay_below_the_limit_of_open_files(folders: dict[str, Path]) -> None:
    """With 256 descriptors: 400 idle connections, and the server still accepts, reads files and logs nothing."""
    serve = [sys.executable, "-m", "saccade.cli", "serve", str(folders["tiny"]), "--port", "0", "--no-browser"]
    command = ["prlimit", "--nofile=256:256", *serve]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = httpx.URL(process.stdout.readline().split()[3])
        idle = [socket.create_connection((url.host, url.port), timeout=60) for _ in range(400)]
        for path in ("/health", "/static/style.css", "/api/models"):
            assert httpx.get(url.join(path), timeout=10, trust_env=False).status_code == 200
        for one in idle:
            one.close()
        process.terminate()
        assert process.stderr.read() == ""


def test_what_is_no_http_is_answered_with_a_sentence(hasty: Running, caplog: pytest.LogCaptureFixture) -> None:
    for sent in (
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET / HTTP/1.12\r\n\r\n",
        b"G\r\n\r\n",
        HEAD + b"Content-Length: x\r\n\r\n",
    ):
        with connected(hasty) as client:
            client.sendall(sent)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert answer.endswith(b'{"error": "This is not a valid HTTP request."}')
        for name, value in SECURITY_HEADERS.items():  # as on any other answer
            assert f"\r\n{name}: {value}\r\n".encode() in answer
    assert not caplog.records


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
LONG = {
    "100 headers": (GET + b"X: a\r\n" * 99 + b"\r\n", 200, b"ok"),
    "101 headers": (GET + b"X: a\r\n" * 100 + b"\r\n", 431, b"more than 100 headers"),
    "a long header": (GET + b"Cookie: " + b"a;" * 5000 + b"\r\n\r\n", 431, b"header has more than 8,192 bytes"),
    "long headers": (GET + (b"X: " + b"a" * 8000 + b"\r\n") * 5 + b"\r\n", 431, b"have more than 32,768 bytes"),
    "an endless header": (GET + b"X: " + b"a" * 300_000, 431, b"longer than 262,144 bytes"),
    "a long path": (b"GET /" + b"%20" * 2000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, b"more than 4,096 bytes"),
    "a long query": (
        b"GET /health?q=" + b"%C3%A9" * 2000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        414,
        b"longer than 8,192 bytes; send long texts in the body",
    ),
    "the address of a page with a long text": (
        b"GET /ask?t=" + b"%F0%9F%98%80" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        200,
        b"<!doctype html>",
    ),
    "100 chunks": (CHUNKED + b"1\r\n \r\n" * 99 + b"0\r\n\r\n", 400, b"not valid JSON"),
    "many chunks": (CHUNKED + b"1\r\n \r\n" * 200, 413, b"fewer than 256 bytes on average"),
    "many chunks that are not short": (
        CHUNKED + (b"100\r\n" + b" " * 256 + b"\r\n") * 2000 + b"0\r\n\r\n",
        400,
        b"not valid JSON",
    ),
    "a chunk that is too large": (
        CHUNKED + b"f" * 18 + b"\r\n",
        413,
        b"chunk of the body has more than 4,194,304 bytes",
    ),
    "a chunk without a size": (CHUNKED + b"x\r\n", 400, b"not a valid HTTP request"),
    "two encodings": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, b"use chunked, only once"),
    "101 trailers": (CHUNKED + b"0\r\n" + b"X: a\r\n" * 102 + b"\r\n", 431, b"more than 100 headers"),
}


@pytest.mark.parametrize("kind", LONG)
def test_many_short_lines_are_refused(kind: str, running: Running) -> None:
    """Each takes time to parse, and meanwhile nobody else is answered."""
    sent, status, said = LONG[kind]
    with connected(running) as client, client.makefile("rb") as answer:
        client.sendall(sent)
        assert answer.readline().startswith(b"HTTP/1.1 %d" % status)
        while answer.readline() != b"\r\n":
            pass
        assert said in answer.read1(1000)


def test_a_length_and_chunks_at_once_are_refused(hasty: Running) -> None:
    with connected(hasty) as client, client.makefile("rb") as answer:
        client.sendall(HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n")
        assert answer.readline() == b"HTTP/1.1 400 Bad Request\r\n"
        assert b"both Content-Length and Transfer-Encoding" in answer.read()


def test_what_follows_a_length_and_chunks_is_not_read_as_a_request(running: Running) -> None:
    hidden = b"0\r\n\r\nGET /api/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(running) as client, client.makefile("rb") as answer:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n" % len(hidden) + hidden)
        found = answer.read()  # until the server closes the connection
    assert found.startswith(b"HTTP/1.1 400")
    assert found.count(b"HTTP/1.1") == 1


def test_a_client_that_reads_no_answers_gets_no_more_large_ones(folders: dict[str, Path], runner: Runner) -> None:
    models = Models(Limits(all_bodies=20 << 20, address_bodies=10 << 20))
    models.add(folders["tiny"])
    listening = listen("127.0.0.1", 0)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so that the system does not keep whole answers
    running = runner.start(models, listening=listening)
    rows = [[1.5] * 32] * 60
    body = json.dumps({"queries": rows, "keys": rows, "values": rows}).encode()
    size = len(running.client.post("/api/walkthrough", content=body, headers=JSON).content)
    assert size > 1 << 19
    sent = b"POST /api/walkthrough HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sent += b"Content-Length: %d\r\n\r\n" % len(body) + body
    with contextlib.ExitStack() as open_ones:
        clients = [open_ones.enter_context(connected(running)) for _ in range((40 << 20) // size)]
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(sent)
        statuses = [client.makefile("rb").readline() for client in clients]
    assert {status.split()[1] for status in statuses} == {b"200", b"429"}
    assert running.client.post("/api/walkthrough", content=body, headers=JSON).status_code == 200


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://localhost/health", 200),
        ("http://localhost:80/api/models?x=1", 200),
        ("http://evil.example/health", 400),
    ],
)
def test_a_target_may_be_a_whole_url(hasty: Running, target: str, status: int) -> None:
    with connected(hasty) as client, client.makefile("rb") as answer:
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert answer.readline().startswith(f"HTTP/1.1 {status}".encode())


def test_what_is_written_together_is_sent_together() -> None:
    sent: list[bytes | str] = []
    transport: Any = SimpleNamespace(
        write=sent.append, close=lambda: sent.append("close"), abort=lambda: sent.append("abort"), name="a transport"
    )

    async def write() -> None:
        joined = JoinedWrites(transport, asyncio.get_running_loop())
        assert joined.name == "a transport"
        joined.write(b"head ")
        joined.write(b"")
        joined.write(b"body")
        assert sent == []
        await asyncio.sleep(0)
        assert sent == [b"head body"]
        joined.write(b"last")
        joined.close()
        await asyncio.sleep(0)
        joined.write(b"lost")
        joined.abort()
        await asyncio.sleep(0)

    asyncio.run(write())
    assert sent == [b"head body", b"last", "close", "abort"]
