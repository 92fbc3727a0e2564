"""Crowds of connections that send or read nothing: before a TLS handshake, at the relay, and with answers unread."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from servers import Runner, Running

from saccade.serving import Limits, Models, listen, tls_context
from saccade.serving.http.crowding import network_of
from saccade.serving.processes.relay import Relay, Upstream

ASK = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_all_addresses_of_one_client_count_as_one(address: str, network: str) -> None:
    assert network_of(address) == network


def is_closed(one: socket.socket) -> bool:
    return bool(select.select([one], [], [], 0)[0])


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"], ids=["nothing", "half a greeting"])
def test_handshakes_that_never_end_keep_nobody_out(
    sent: bytes, runner: Runner, certificate: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    running = runner.start(Models(Limits(connections=20)), tls=tls_context(*certificate))
    url = httpx.URL(running.url)
    other = socket.create_connection((url.host, url.port), 60, source_address=("127.0.0.2", 0))
    silent = [socket.create_connection((url.host, url.port), timeout=60) for _ in range(60)]
    for one in silent:
        with contextlib.suppress(ConnectionError):  # some are closed already
            one.sendall(sent)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    assert httpx.get(url.join("/health"), verify=trusting, trust_env=False).status_code == 200
    with trusting.wrap_socket(other, server_hostname="localhost") as secure:  # another address, so it was let be
        secure.sendall(ASK)
        assert secure.recv(100).startswith(b"HTTP/1.1 200")
    assert sum(map(is_closed, silent)) >= 60 - 5
    assert not caplog.records
    for one in silent:
        one.close()


def test_what_does_not_speak_tls_is_cut_off(
    runner: Runner, certificate: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    url = httpx.URL(runner.start(Models(), tls=tls_context(*certificate)).url)
    with socket.create_connection((url.host, url.port), timeout=60) as client, contextlib.suppress(ConnectionError):
        client.sendall(ASK)
        assert b"HTTP" not in b"".join(iter(lambda: client.recv(65536), b""))
    assert not caplog.records


def test_the_end_of_an_answer_that_is_not_read_is_given_up(runner: Runner) -> None:
    """However little of it is left: here less than asyncio holds for a client by default."""
    listening = listen("127.0.0.1", 0)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    running = runner.start(Models(Limits(client_seconds=0.3)), listening=listening)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listening.getsockname())
        client.sendall(b"GET /docs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        waiting = select.poll()
        waiting.register(client, select.POLLERR)  # until the connection is reset
        assert waiting.poll(60_000)
    assert running.client.get("/health").status_code == 200


@pytest.fixture
def worker(runner: Runner, tmp_path: Path) -> Running:
    """A worker with its own limit on connections, as the supervisor would start it."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(tmp_path / "worker.sock"))
    listening.listen(100)
    return runner.start(Models(Limits(connections=16)), listening=listening)


@contextlib.asynccontextmanager
async def relaying(folder: Path, seconds: float = 60.0) -> AsyncIterator[tuple[Relay, int]]:
    upstream = Upstream(folder / "worker.sock", is_ready=True)
    relay = Relay(lambda: [upstream], 20, seconds, None)
    async with await asyncio.get_running_loop().create_server(relay.connection, "127.0.0.1", 0) as server:
        yield relay, server.sockets[0].getsockname()[1]
        for client in list(relay.clients):
            client.transport.abort()
        while relay.clients or upstream.clients:
            await asyncio.sleep(0.01)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("sent", [b"", ASK[:-2]], ids=["nothing", "half a request"])
def test_idle_connections_to_several_processes_keep_nobody_out(sent: bytes, tmp_path: Path) -> None:
    async def ask() -> bytes:
        async with relaying(tmp_path) as (relay, port):
            crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            for _, writer in crowd:
                writer.write(sent)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            writer.write(ASK)
            async with asyncio.timeout(60):
                answer = await reader.readline()
            assert len(relay.clients) <= relay.most
            for _, one in [*crowd, (reader, writer)]:
                await closed(one)
            return answer

    assert asyncio.run(ask()) == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.usefixtures("worker")
def test_an_answer_that_is_not_read_leaves_the_relay(tmp_path: Path) -> None:
    async def ask() -> None:
        async with relaying(tmp_path, seconds=0.3) as (relay, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
            async with asyncio.timeout(60):
                while not relay.clients:
                    await asyncio.sleep(0.01)
                while relay.clients:
                    await asyncio.sleep(0.01)
            await closed(writer)

    asyncio.run(ask())
