"""One connection, which no client can hold for ever by sending slowly or by not reading its answer."""

from __future__ import annotations

import asyncio
import socket
import struct

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["KEPT_OPEN", "Connection"]

#: Seconds that a connection without a request stays open. Clients reuse theirs for less (5 to 60 seconds): if both
#: ended at the same moment, a request could be sent to a connection that is just being closed, and be lost.
KEPT_OPEN = 75


class Connection(H11Protocol):
    """Uvicorn's, with time limits where it has none: the head of a request, and an answer that is not taken."""

    seconds = 60.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._timers: dict[str, asyncio.TimerHandle] = {}
        super().connection_made(transport)
        self._await("head")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:  # a part of a head, or the rest of what was refused
            self._await("head")
        else:
            self._has_come("head")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await("reader")

    def resume_writing(self) -> None:
        super().resume_writing()
        self._has_come("reader")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for what in list(self._timers):
            self._has_come(what)

    def end_unsent(self) -> None:
        """The server ends: a request that is not there as a whole by now is not waited for."""
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self._give_up()

    def _await(self, what: str) -> None:
        if what not in self._timers:
            self._timers[what] = self.loop.call_later(self.seconds, self._give_up)

    def _has_come(self, what: str) -> None:
        if what in self._timers:
            self._timers.pop(what).cancel()

    def _give_up(self) -> None:
        """Close at once, and let the system forget what was to be sent."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()
