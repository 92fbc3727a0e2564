"""Load the certificate for TLS, and keep track of connections until their handshake is done."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from saccade.errors import OptionError
from saccade.serving.http.crowding import first_to_close, network_of

__all__ = ["Door", "Handshake", "tls_context"]

#: Seconds that a handshake may take.
SECONDS = 10.0


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the TLS settings for a certificate (with those that sign it) and its private key, both PEM files."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    for path in (certificate, key):
        if not path.is_file():
            raise OptionError(f"There is no file {path}.")
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")  # never asks at the terminal
    except (OSError, ValueError) as error:
        raise OptionError(f"{certificate} and {key} are not a certificate and its key in PEM form ({error}).") from None
    return context


class Door:
    """Keeps the connections whose TLS handshake is not done yet; if there are too many, it closes one of them."""

    def __init__(self, context: ssl.SSLContext, most: int) -> None:
        self.context = context
        self.most = most
        self._waiting: set[Handshake] = set()

    def enter(self, handshake: Handshake) -> None:
        self._waiting.add(handshake)
        if len(self._waiting) > self.most and (oldest := first_to_close(self._waiting)) is not None:
            oldest.transport.abort()
            self._waiting.discard(oldest)

    def leave(self, handshake: Handshake) -> None:
        self._waiting.discard(handshake)


class Handshake(asyncio.Protocol):
    """A connection until its handshake is done; then the protocol that ``make`` returns takes over.

    asyncio's own TLS servers report a connection only after its handshake, so we could not count or close connections
    that never send anything.
    """

    def __init__(self, door: Door, make: Callable[[], asyncio.Protocol]) -> None:
        self.door, self._make = door, make
        self.address, self.idle_since = "", time.monotonic()
        self.transport: asyncio.Transport
        self._early = b""  # what the client sent right after the handshake
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.address = network_of(str((transport.get_extra_info("peername") or ("",))[0]))
        transport.pause_reading()  # start_tls reads the handshake itself
        self.door.enter(self)
        self._shaking = asyncio.create_task(self._shake_hands())  # a task that nothing refers to may be lost

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self.door.leave(self)

    async def _shake_hands(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            secure = await loop.start_tls(
                self.transport, self, self.door.context, server_side=True, ssl_handshake_timeout=SECONDS
            )
        except OSError:  # it left, was too slow, or does not speak TLS
            self.transport.abort()
            return
        finally:
            self.door.leave(self)
        if secure is None or self._is_lost:
            return
        protocol = self._make()
        secure.set_protocol(protocol)
        protocol.connection_made(secure)
        if self._early:
            protocol.data_received(self._early)
