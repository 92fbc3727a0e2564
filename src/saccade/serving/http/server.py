"""Running the server: it listens, and when it is told to end, it answers what it has taken before it does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import cast

import uvicorn

from saccade.errors import StorageError
from saccade.serving.http.connections import KEPT_OPEN, Connection, most_connections
from saccade.serving.http.guard import Guard

__all__ = ["listen", "make_server", "serve"]

#: Seconds after the last new connection in which a request that is on its way may still arrive.
GRACE = 0.3
BACKLOG = 1024
#: Bytes of the first line and the headers of a request; of longer ones the connection is closed. A whole text may
#: stand in the query string: 20,000 characters, each of up to 12 letters there.
LONGEST_HEAD = 1 << 18


class _Server(uvicorn.Server):
    """Ends without raising the signal again: an end that was asked for is no error."""

    def __init__(self, config: uvicorn.Config, app: Guard) -> None:
        super().__init__(config)
        self._app = app

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # only that one is told of signals
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or []:  # asyncio has made the system's queue as short as what is accepted in one go
            one.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.draining = True
        waiting = [connection for one in sockets or [] for connection in _waiting(one)]
        for server in self.servers:
            server.close()
        for one in sockets or []:
            one.close()
        loop = asyncio.get_running_loop()
        for connection in waiting:
            await loop.connect_accepted_socket(self._connection, connection)
        await asyncio.sleep(GRACE)  # a request that was sent may not have been read yet
        for open_one in list(self.server_state.connections):
            if isinstance(open_one, Connection):
                open_one.end_unsent()
        await super().shutdown(sockets)

    def _connection(self) -> Connection:
        config = self.config
        return cast(type[Connection], config.http_protocol_class)(config, self.server_state, self.lifespan.state)


def _waiting(listening: socket.socket) -> Iterator[socket.socket]:
    """The connections that the system has taken for us: they would be reset with the socket."""
    with contextlib.suppress(OSError):  # no more, or closed already
        while True:
            connection, _ = listening.accept()
            connection.setblocking(False)
            yield connection


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, because only then does asyncio send at once what else waits for an acknowledgement (40 ms).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise StorageError(f"The server cannot listen at {host}:{port}: {error.strerror or error}.") from None
    listening.listen(BACKLOG)
    return listening


def make_server(app: Guard, trusted_proxies: Sequence[str] = ()) -> uvicorn.Server:
    """What runs the application; setting ``should_exit`` ends it.

    Only of the proxies named is it believed for whom they ask (X-Forwarded-For).
    """
    limits = app.state.limits
    connections, at_once = most_connections(limits.connections)

    class _Connection(Connection):
        seconds = limits.client_seconds
        most = connections

    config = uvicorn.Config(
        app,
        log_level="error",  # what clients do wrong is told to them, not to the log
        lifespan="off",
        ws="none",
        loop="asyncio",  # these two whatever else is installed: what is refused, and how, stays the same
        http=_Connection,
        timeout_keep_alive=KEPT_OPEN,
        timeout_graceful_shutdown=int(limits.seconds + limits.map_seconds),  # whatever was taken is answered
        server_header=False,
        backlog=at_once,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )
    return _Server(config, app)


def serve(app: Guard, listening: socket.socket, trusted_proxies: Sequence[str] = ()) -> None:
    """Answer requests until SIGINT or SIGTERM."""
    # Of several threads that compute, each lets the others go on ten times as often as usual (every 5 ms): a short
    # answer takes hundreds of operations, and may have to wait that long before each.
    sys.setswitchinterval(0.0005)
    make_server(app, trusted_proxies).run(sockets=[listening])
    app.state.models.close()
