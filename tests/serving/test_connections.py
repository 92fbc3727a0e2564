"""Clients that are slow, silent or asleep: they lose their connection, and nobody else's."""

from __future__ import annotations

import select
import socket
import threading
from pathlib import Path

import httpx
import pytest
from servers import Runner, Running

from saccade.serving import Limits, Models

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
        assert answer.read().endswith(b'{"error":"The request did not come within 0.3 seconds."}')


def test_an_answer_that_is_not_read_is_given_up(hasty: Running) -> None:
    with connected(hasty) as client:
        client.sendall(b"GET /static/walk-step.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
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
    worker = hasty.models["tiny"].worker
    worker.predictor.predict = lambda *_, **__: 1 / 0  # type: ignore[method-assign, assignment]
    with connected(hasty) as client:
        for _ in range(2):
            client.sendall(HEAD + b'Content-Length: 17\r\n\r\n{"inputs": ["a"]}')
            answer = b""
            while not answer.endswith(b"}"):
                answer += client.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 500")
            assert b'{"error":"The server failed to answer this; its log says why."}' in answer
    assert "ZeroDivisionError" in caplog.text  # and the log says why
