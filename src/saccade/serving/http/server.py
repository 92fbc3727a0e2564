"""Run the server; when told to stop, it first answers every request that it has accepted."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import anyio.to_thread
import uvicorn

from saccade.errors import StorageError
from saccade.serving.http.connections import KEPT_OPEN, LONGEST_HEAD, Connection, RelayedConnection, most_connections
from saccade.serving.http.guard import Guard
from saccade.serving.http.tls import Door, Handshake
from saccade.serving.memory import keep_giving_back

__all__ = ["listen", "make_server", "quieten", "serve"]

#: Seconds to wait for requests that are already on their way when the server stops.
GRACE = 0.3
BACKLOG = 1024
#: Threads for routes that are plain functions. Python runs one thread at a time, so with many of them (FastAPI would
#: use 40) a model would hardly get its turn.
ROUTE_THREADS = 2


class _Server(uvicorn.Server):
    """Uvicorn's server, but when it stops, it does not raise the signal again: stopping on request is not an error."""

    def __init__(self, config: uvicorn.Config, app: Guard) -> None:
        super().__init__(config)
        self._app = app

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # only that one gets signals
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = ROUTE_THREADS
        await super().startup(sockets)
        for one in sockets or []:  # asyncio has shortened the backlog to what is accepted in one go
            one.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.draining = True
        waiting = [connection for one in sockets or [] for connection in accept_waiting(one)]
        for server in self.servers:
            server.close()
        for one in sockets or []:
            one.close()
        loop = asyncio.get_running_loop()
        for connection in waiting:
            await loop.connect_accepted_socket(self._connection, connection)
        await asyncio.sleep(GRACE)  # requests may have been sent but not read yet
        for open_one in list(self.server_state.connections):
            if isinstance(open_one, Connection):
                open_one.end_unsent()
        await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        found: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return found


def accept_waiting(listening: socket.socket) -> Iterator[socket.socket]:
    """Accept and yield the connections that wait to be accepted, because closing the socket would reset them."""
    with contextlib.suppress(OSError):  # no more, or already closed
        while True:
            connection, _ = listening.accept()
            connection.setblocking(False)
            yield connection


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address; with port 0, the system picks a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY; otherwise small packets could wait 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise StorageError(f"The server cannot listen on {host}:{port}: {error.strerror or error}.") from None
    listening.listen(BACKLOG)
    return listening


def make_server(
    app: Guard, trusted_proxies: Sequence[str] = (), tls: ssl.SSLContext | None = None, *, is_relayed: bool = False
) -> uvicorn.Server:
    """Return a server for the application; setting its ``should_exit`` to True stops it.

    The header X-Forwarded-For is used only if it comes from a trusted proxy.
    """
    limits = app.state.limits
    connections, at_once = most_connections(limits.connections)
    kind: type[Connection] = RelayedConnection if is_relayed else Connection
    handshakes = 0 if tls is None else max(1, connections // 4)
    limited = {
        "seconds": limits.client_seconds,
        "most": connections - handshakes,
        "largest": limits.body_bytes,
        "unread": app.state.unread,
    }
    protocol: Any = type("LimitedConnection", (kind,), limited)
    if tls is not None:
        door = Door(tls, handshakes)
        protocol = functools.partial(_behind, door, protocol)
    config = uvicorn.Config(
        app,
        log_level="error",  # clients' mistakes are reported to them, not in the log
        lifespan="off",
        ws="none",
        loop="asyncio",  # the same behaviour whatever else is installed
        http=protocol,
        timeout_keep_alive=KEPT_OPEN,
        timeout_graceful_shutdown=int(2 * limits.seconds) + 1,  # longer than any answer waits and takes, except maps
        server_header=False,
        backlog=at_once,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )
    config.load()
    return _Server(config, app)


def _behind(door: Door, kind: type[Connection], **arguments: Any) -> Handshake:
    """Make a connection of this kind that starts with a TLS handshake."""
    return Handshake(door, functools.partial(kind, **arguments))


def quieten() -> None:
    """Keep asyncio from logging that a client has disconnected in the middle of its answer, which is not an error."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # forms with mistakes: their clients are told


def serve(
    app: Guard, listening: socket.socket, trusted_proxies: Sequence[str] = (), tls: ssl.SSLContext | None = None
) -> None:
    """Answer requests until SIGINT or SIGTERM."""
    # Threads that compute give up the interpreter ten times as often as by default (5 ms): a short answer takes
    # hundreds of operations and could otherwise wait that long before each of them.
    sys.setswitchinterval(0.0005)
    quieten()
    # Requests are short: distributing their texts to threads would take longer than tokenizing them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    is_relayed = listening.family not in (socket.AF_INET, socket.AF_INET6)
    # The many objects of the models and libraries are never freed. If the garbage collector skips them, it takes a
    # tenth of the time, and no request is answered while it runs.
    gc.collect()
    gc.freeze()
    keep_giving_back()
    app.state.models.watch()
    make_server(app, trusted_proxies, tls, is_relayed=is_relayed).run(sockets=[listening])
    app.state.models.close()
    app.state.walks.close()
