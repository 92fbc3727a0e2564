"""Where an answer ends, which is all that the relay before several processes reads of it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from saccade.serving.http.exchange import SECURITY_HEADERS
from saccade.serving.processes import neighbours, relay
from saccade.serving.processes.neighbours import Neighbours, socket_path
from saccade.serving.processes.relay import Relay, Upstream, _Response, refusal

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
ANSWERS = {
    "counted": HEAD + b"Content-Length: 5\r\n\r\nhello",
    "empty": HEAD + b"content-length: 0\r\n\r\n",
    "chunked": HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\n0\n\r\n0\r\n\r\n",
    "no chunk": HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    "after 100": b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"content-length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_the_end_of_an_answer_is_found_however_it_is_cut(kind: str, size: int) -> None:
    text, answer = ANSWERS[kind], _Response(has_body=True)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert [answer.ends_with(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_an_answer_may_say_that_the_connection_closes() -> None:
    for header, closes in ((b"", False), (b"Connection: close\r\n", True), (b"connection: keep-alive\r\n", False)):
        answer = _Response(has_body=True)
        assert answer.ends_with(HEAD + header + b"content-length: 2\r\n\r\nok")
        assert answer.closes == closes


def test_an_answer_to_head_has_no_body() -> None:
    assert _Response(has_body=False).ends_with(HEAD + b"content-length: 500\r\n\r\n")


def test_being_told_to_go_on_is_no_answer_yet() -> None:
    answer = _Response(has_body=True)
    assert not answer.ends_with(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert not answer.has_begun
    assert not answer.ends_with(b"HTTP/1.1 2")
    assert answer.has_begun


def test_a_worker_that_hangs_does_not_hide_the_metrics_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "METRICS_SECONDS", 0.2)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"content-length: 4\r\n\r\nfine")
        writer.close()

    async def ask() -> list[str]:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(socket_path(tmp_path, 1)))
            silent.listen()
            async with await asyncio.start_unix_server(answer, socket_path(tmp_path, 2)):
                return await Neighbours(tmp_path, 0, 3).metrics([])

    assert asyncio.run(ask()) == ["fine"]


@pytest.mark.parametrize("has_died", [False, True])
def test_a_request_is_refused_only_if_its_worker_died(
    has_died: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker also closes the connection of a client that is too slow, and has not died then."""
    monkeypatch.setattr(relay, "DEATH_SECONDS", 0.2)
    upstream = Upstream(tmp_path / "worker.sock", is_ready=True)

    async def worker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"GET /hea")
        if has_died:
            upstream.died.set()
        writer.transport.abort()

    async def ask() -> bytes:
        made = Relay(lambda: [upstream], 10, 60.0, None)
        loop = asyncio.get_running_loop()
        async with (
            await asyncio.start_unix_server(worker, upstream.path),
            await loop.create_server(made.connection, "127.0.0.1", 0) as server,
        ):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"GET /hea")
            found = await reader.read()
            writer.close()
            return found

    assert asyncio.run(ask()) == (refusal(relay.DIED) if has_died else b"")


def test_a_worker_that_does_not_respond_gets_no_connection(tmp_path: Path) -> None:
    hung, other = Upstream(tmp_path / "0", is_ready=True, is_silent=True), Upstream(tmp_path / "1", is_ready=True)
    made = Relay(lambda: [hung, other], 10, 60.0, None)
    assert made.choose() is other
    assert made.is_crowded(hung)
    other.is_silent = True  # a busy machine: better one of them than none
    assert made.choose() is hung


def test_a_refusal_has_the_headers_of_every_answer() -> None:
    head, _, body = refusal("Come again.").partition(b"\r\n\r\n")
    for name, value in SECURITY_HEADERS.items():
        assert f"\r\n{name}: {value}".encode() in head
    assert f"\r\nContent-Length: {len(body)}".encode() in head
