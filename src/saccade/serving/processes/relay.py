"""Relay connections to worker processes, so that clients get an answer even if a worker dies.

The relay passes bytes on, and only keeps track of where each answer ends. So when a worker dies, the relay knows
whether a client is waiting for an answer (it gets 503), has received a part of one (its connection is closed), or
neither (its next request goes to another worker).
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from saccade.serving.http.crowding import first_to_close, network_of
from saccade.serving.http.exchange import SECURITY_HEADERS
from saccade.serving.http.tls import Door, Handshake

__all__ = ["Relay", "Upstream"]

#: Seconds until we know whether a worker that closed a connection has died: one that no request was sent on, and one
#: with a request that the worker may or may not have received completely.
IDLE_DEATH_SECONDS, DEATH_SECONDS = 0.5, 5.0
#: How often, and how many times, a client without a request looks for a worker while there is none.
CHECK_SECONDS, IDLE_CHECKS = 0.1, 100
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)")
DIED = "The worker process that was computing this answer has stopped; send the request again."
NONE_READY = "No worker process is ready to answer at the moment; try again in a moment."


def refusal(sentence: str) -> bytes:
    """Return a complete HTTP response with status 503 and this sentence."""
    body = json.dumps({"error": sentence}).encode()
    own = {"Content-Type": "application/json", "Retry-After": "1", "Connection": "close"}
    headers = own | SECURITY_HEADERS | {"Content-Length": str(len(body))}
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass(eq=False)
class Upstream:
    """What the relay knows about a worker process."""

    path: Path  # its socket
    is_ready: bool = False
    is_silent: bool = False  # whether it did not respond when it was last asked
    died: asyncio.Event = field(default_factory=asyncio.Event)
    clients: set[_FromClient] = field(default_factory=set)  # connected or connecting


class _Response:
    """Follows one answer in the bytes that a worker sends, to find out where it ends."""

    def __init__(self, *, has_body: bool, is_certain: bool = True) -> None:
        self.has_begun = False
        self.closes = False  # whether the worker closes the connection after it
        self.is_certain = is_certain  # False: the client may just have sent the rest of a refused request
        self._has_body = has_body
        self._head = b""
        self._left: int | None = None  # bytes of the body; None before the head is complete
        self._last = b"\r\n"  # the end of a chunked body, which is followed instead of counted
        self._is_chunked = False

    def ends_with(self, data: bytes) -> bool:
        """Take the next bytes; True if they complete the answer."""
        self.has_begun = True
        if self._left is None:
            head, end, data = (self._head + data).partition(b"\r\n\r\n")
            if not end:
                self._head = head
                return False
            if head.startswith(b"HTTP/1.1 100"):  # "go on sending", before the answer itself
                self.has_begun, self._head = False, b""
                return self.ends_with(data) if data else False
            length, self.closes = _LENGTH.search(head.lower()), b"\r\nconnection: close" in head.lower()
            self._is_chunked = self._has_body and length is None and head[9:12] not in (b"204", b"304")
            self._left = int(length[1]) if length is not None and self._has_body else 0
        if self._is_chunked:
            self._last = (self._last + data)[-7:]
            return self._last == b"\r\n0\r\n\r\n"
        self._left -= len(data)
        return self._left <= 0


class _ToWorker(asyncio.Protocol):
    """The connection to a worker that belongs to one client."""

    def __init__(self, client: _FromClient, upstream: Upstream) -> None:
        self.client, self.upstream = client, upstream
        self.transport: asyncio.Transport
        self.is_dropped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.client.answered(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.upstream.clients.discard(self.client)
        if not self.is_dropped:
            self.client.worker_lost(self)

    def pause_writing(self) -> None:
        self.client.transport.pause_reading()

    def resume_writing(self) -> None:
        self.client.transport.resume_reading()

    def drop(self) -> None:
        self.is_dropped = True
        self.upstream.clients.discard(self.client)
        self.transport.abort()


class _FromClient(asyncio.Protocol):
    """The connection of a client, paired with its own connection to a worker, whose time limits apply to both."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.transport: asyncio.Transport
        self.worker: _ToWorker | None = None
        self._answer: _Response | None = None  # the answer that the client waits for
        self._has_next = False  # whether bytes came after the answer had begun
        self._unsent = b""
        self._connecting: asyncio.Task[None] | None = None
        self.address, self.idle_since = "", time.monotonic()
        self._reader_timer: asyncio.TimerHandle | None = None  # until when the client must have read its answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.address = network_of(str((transport.get_extra_info("peername") or ("",))[0]))
        transport.set_write_buffer_limits(high=1)  # so that we notice whatever the client does not read
        if not self.relay.let_in(self):
            transport.abort()
            return
        self._connect()

    @property
    def is_idle(self) -> bool:
        return self._answer is None

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self._answer = _Response(has_body=not data.startswith(b"HEAD "))
            if self.worker is not None and self.relay.is_crowded(self.worker.upstream):
                self.worker.drop()
                self.worker = None
                self._connect()
        elif self._answer.has_begun:
            self._has_next = True  # the next request, or the rest of one that was refused early
        if self.worker is None:
            self._unsent += data
        else:
            self.worker.transport.write(data)

    def answered(self, data: bytes) -> None:
        self.transport.write(data)
        if self._answer is not None and self._answer.ends_with(data):
            if self._answer.closes:
                self.transport.close()
            self._answer = _Response(has_body=True, is_certain=False) if self._has_next else None
            self._has_next = False
            self.idle_since = time.monotonic()

    def connection_lost(self, exc: Exception | None) -> None:
        self.relay.clients.discard(self)
        self._stop_reader_timer()
        if self._connecting is not None:
            self._connecting.cancel()
        if self.worker is not None:
            self.worker.drop()

    def pause_writing(self) -> None:
        self._reader_timer = asyncio.get_running_loop().call_later(self.relay.seconds, self.transport.abort)
        if self.worker is not None:
            self.worker.transport.pause_reading()

    def resume_writing(self) -> None:
        self._stop_reader_timer()
        if self.worker is not None:
            self.worker.transport.resume_reading()

    def _stop_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def worker_lost(self, worker: _ToWorker) -> None:
        """Called when the worker has closed its connection, on purpose or because it died."""
        self.worker = None
        if self.transport.is_closing():
            return
        is_answering = self._answer is not None and (self._answer.has_begun or not self._answer.is_certain)
        if is_answering or (self._answer is None and self.relay.is_stopping):
            self.transport.close()
            return
        self.transport.pause_reading()
        self._connecting = asyncio.create_task(self._find_out(worker.upstream))

    async def _find_out(self, upstream: Upstream) -> None:
        """If the worker died, refuse the request that it had or, if it had none, connect to another worker.

        Otherwise it closed the connection on purpose, for example because the client was too slow, so close the
        client's as well.
        """
        try:
            async with asyncio.timeout(IDLE_DEATH_SECONDS if self._answer is None else DEATH_SECONDS):
                await upstream.died.wait()
        except TimeoutError:
            self.transport.close()
        else:
            self._connect() if self._answer is None else self._refuse(DIED)

    def _refuse(self, sentence: str) -> None:
        self.transport.write(refusal(sentence))
        self.transport.close()

    def _connect(self) -> None:
        self.transport.pause_reading()
        self._connecting = asyncio.create_task(self._connect_to_worker())

    async def _connect_to_worker(self) -> None:
        loop = asyncio.get_running_loop()
        address = self.transport.get_extra_info("peername") or ("", 0)
        scheme = "https" if self.transport.get_extra_info("sslcontext") else "http"
        worker: _ToWorker | None = None
        for _ in range(IDLE_CHECKS):
            upstream = self.relay.choose()
            if upstream is None:  # none has started yet, or none is left
                if self._answer is not None or self.relay.is_stopping:
                    break
                self.transport.resume_reading()
                await asyncio.sleep(CHECK_SECONDS)
                continue
            upstream.clients.add(self)
            connection = functools.partial(_ToWorker, self, upstream)
            try:
                _, worker = await loop.create_unix_connection(connection, str(upstream.path))
            except OSError:
                upstream.is_ready = False  # it is stopping
                continue
            finally:
                if worker is None:
                    upstream.clients.discard(self)
            worker.transport.write(f"{address[0]} {address[1]} {scheme}\r\n".encode() + self._unsent)
            self.worker, self._unsent = worker, b""
            self.transport.resume_reading()
            return
        self._refuse(NONE_READY) if self._answer is not None else self.transport.close()


class Relay:
    """Accepts connections and gives each to the worker with the fewest connections."""

    def __init__(
        self, upstreams: Callable[[], list[Upstream]], most: int, seconds: float, tls: ssl.SSLContext | None
    ) -> None:
        handshakes = 0 if tls is None else max(1, most // 4)
        self.most = most - handshakes
        self.seconds = seconds  # that a client may take to read an answer
        self.is_stopping = False
        self.clients: set[_FromClient] = set()
        self._door = None if tls is None else Door(tls, handshakes)
        self._upstreams = upstreams

    def connection(self) -> asyncio.Protocol:
        return _FromClient(self) if self._door is None else Handshake(self._door, lambda: _FromClient(self))

    def let_in(self, client: _FromClient) -> bool:
        """Add a client and return True; if there are too many clients, close the connection of an idle one first.

        If there are too many and none is idle, return False: the new connection must be closed.
        """
        if len(self.clients) >= self.most:
            idle = first_to_close(one for one in self.clients if one.is_idle)
            if idle is None:
                return False
            self.clients.discard(idle)
            idle.transport.abort()
        self.clients.add(client)
        return True

    def choose(self) -> Upstream | None:
        ready = [one for one in self._upstreams() if one.is_ready and not one.died.is_set()]
        return min(ready, key=lambda one: (one.is_silent, len(one.clients)), default=None)

    def is_crowded(self, upstream: Upstream) -> bool:
        """Return whether another worker, perhaps one just restarted, has at least two connections fewer, or responds
        while this one does not."""
        best = self.choose()
        here = (upstream.is_silent, len(upstream.clients))
        return best is not None and (best.is_silent, len(best.clients) + 1) < here
