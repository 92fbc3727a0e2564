"""One connection to a client, with time limits for sending a request and for reading its answer."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import time
from http import HTTPStatus
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from saccade.serving.http.crowding import first_to_close, network_of
from saccade.serving.http.exchange import SECURITY_HEADERS
from saccade.serving.http.places import Unread

__all__ = ["KEPT_OPEN", "QUESTION", "Connection", "RelayedConnection", "most_connections"]

#: Seconds that an idle connection stays open. Clients keep theirs for less (5 to 60 seconds): if both sides closed
#: at the same moment, a request could be lost on a connection that is just being closed.
KEPT_OPEN = 75
#: Open files that are not connections: weights, logs, pictures.
OTHER_FILES = 96
#: The limit on open files that the server requests, if the system allows it.
WANTED_FILES = 4096
#: The most bytes of a request line with its headers. The address of a page may contain a whole text: 20,000 characters,
#: each encoded in up to 12 bytes.
LONGEST_HEAD = 1 << 18
#: Most bytes of the path alone, of one header, and of all headers without the request line.
LONGEST_PATH, LONGEST_HEADER, LONGEST_HEADERS = 4096, 1 << 13, 1 << 15
#: The most headers of a request, and the most bytes that are parsed in one go: parsing a header takes time, however
#: short it is, and no other request is answered in the meantime.
MOST_HEADERS, PARSED_BYTES = 100, 1 << 14
#: Each chunk of a chunked body takes time too: the first hundred may be short, but with more, the chunks must have at
#: least this many bytes on average.
FREE_CHUNKS, LEAST_CHUNK = 100, 256


def most_connections(wanted: int) -> tuple[int, int]:
    """Return how many connections may be open, at most ``wanted``, and how many new ones to accept in one go.

    A process without a free file descriptor can neither accept connections nor read files, so the limit leaves some
    descriptors free.
    """
    try:
        import resource
    except ModuleNotFoundError:  # Windows does not count connections as open files
        return wanted, 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    files = WANTED_FILES if soft == resource.RLIM_INFINITY else soft
    at_once = max(8, min(1024, files // 8))
    return max(8, min(wanted, files - at_once - OTHER_FILES)), at_once


class _Received(ReceiveBuffer):
    """The bytes of a request that h11 has received but not parsed, with limits on the number and length of lines."""

    _bytes = _chunks = 0  # of the body

    def __init__(self, largest: int) -> None:
        super().__init__()
        self._largest = largest  # most bytes of a chunk

    def __iadd__(self, data: bytes | bytearray) -> _Received:
        self._bytes += len(data)
        super().__iadd__(data)
        return self

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """The lines of a request's head, or the headers after a chunked body."""
        lines = super().maybe_extract_lines()
        if lines:
            self._bytes, self._chunks = len(self), 0
            line, *headers = lines
            if len(line.partition(b"?")[0]) > LONGEST_PATH:
                raise h11.RemoteProtocolError(f"The path has more than {LONGEST_PATH:,} bytes.", 414)
            if len(headers) > MOST_HEADERS:
                raise h11.RemoteProtocolError(f"The request has more than {MOST_HEADERS} headers.", 431)
            lengths = [len(header) for header in headers]
            if max(lengths, default=0) > LONGEST_HEADER:
                raise h11.RemoteProtocolError(f"A header has more than {LONGEST_HEADER:,} bytes.", 431)
            if sum(lengths) > LONGEST_HEADERS:
                raise h11.RemoteProtocolError(f"The headers have more than {LONGEST_HEADERS:,} bytes.", 431)
        return lines

    def maybe_extract_next_line(self) -> bytearray | None:
        """The line before a chunk of the body, which gives its size."""
        line = super().maybe_extract_next_line()
        if line is not None:
            self._chunks += 1
            if self._chunks > FREE_CHUNKS + self._bytes // LEAST_CHUNK:
                said = (
                    f"more than {FREE_CHUNKS} chunks, of fewer than {LEAST_CHUNK} bytes on average; send larger ones."
                )
                raise h11.RemoteProtocolError(f"The body has {said}", 413)
            if _chunk_size(line) > self._largest:
                raise h11.RemoteProtocolError(f"A chunk of the body has more than {self._largest:,} bytes.", 413)
        return line


def _chunk_size(line: bytes | bytearray) -> int:
    """Return the size that a line before a chunk gives, or 0 if it is not valid, which h11 will find."""
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        return 0


class JoinedWrites:
    """A transport that joins small writes, so that the headers and the body of an answer are sent in one packet.

    If the server has several processes, this also spares the supervisor two system calls for each packet.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._unsent: list[bytes] = []

    def write(self, data: bytes) -> None:
        if data and not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += [data] if data else []

    def close(self) -> None:
        self._send()
        self._transport.close()

    def abort(self) -> None:
        self._unsent.clear()
        self._transport.abort()

    def _send(self) -> None:
        if self._unsent:
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(H11Protocol):
    """Uvicorn's connection, with limits on the time in which a client must send the headers of a request and read an
    answer, and on the number of connections."""

    seconds = 60.0
    most = 1024
    largest = 4 << 20  # bytes of a body
    unread: Unread
    _is_reset = False
    _unread_bytes, _reader = 0, ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn._receive_buffer = _Received(self.largest)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.idle_since = time.monotonic()
        transport.max_size = PARSED_BYTES  # type: ignore[attr-defined]  # of what asyncio reads at once
        transport.set_write_buffer_limits(high=1)  # so that we notice whatever the client does not read
        joined: Any = JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        self._start_timer("head")
        self._make_room()

    def on_response_complete(self) -> None:
        self.idle_since = time.monotonic()
        super().on_response_complete()

    @property
    def address(self) -> str:
        return network_of(self.client[0] if self.client else "")

    @property
    def is_idle(self) -> bool:
        """Whether no complete request is waiting for its answer; one whose refusal is held back does not count."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.scope["state"].get("is_refused"):
            return True
        return cycle.more_body and not cycle.response_started

    def _make_room(self) -> None:
        """If there are too many connections, close the oldest idle one of the address with the most idle ones."""
        every = [one for one in self.connections if isinstance(one, Connection) and not one._is_reset]
        if len(every) > self.most and (oldest := first_to_close(one for one in every if one.is_idle)) is not None:
            oldest._reset()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is not valid HTTP or is too long; if an answer is already being sent, just close the
        connection."""
        status, said = _reason(sys.exc_info()[1])
        sentence = json.dumps({"error": said}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(sentence))),
            ("connection", "close"),
            *SECURITY_HEADERS.items(),
        ]
        try:
            head = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)
            parts = (head, h11.Data(data=sentence), h11.EndOfMessage())
            self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
            self.transport.close()
        except h11.LocalProtocolError:
            self._reset()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:  # part of a head, or the rest of a refused body
            self._start_timer("head")
        else:
            self._stop_timer("head")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_timer("reader")
        self._count_unread(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer("reader")
        self._count_unread(0)

    def _count_unread(self, count: int) -> None:
        if self._unread_bytes:
            self.unread.change(self._reader, -self._unread_bytes)
        if count:  # the address of the request, which a trusted proxy may have told
            self._reader = network_of(str((self.scope.get("client") or ("",))[0])) if self.scope else self.address
            self.unread.change(self._reader, count)
        self._unread_bytes = count

    def connection_lost(self, exc: Exception | None) -> None:
        self._count_unread(0)
        super().connection_lost(exc)
        for what in list(self._timers):
            self._stop_timer(what)

    def end_unsent(self) -> None:
        """Close the connection if its request is still incomplete; called when the server stops."""
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self._reset()

    def _start_timer(self, what: str) -> None:
        if what not in self._timers:
            self._timers[what] = self.loop.call_later(self.seconds, self._reset)

    def _stop_timer(self, what: str) -> None:
        if what in self._timers:
            self._timers.pop(what).cancel()

    def _reset(self) -> None:
        """Close immediately and discard what has not been sent."""
        self._is_reset = True
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def _reason(error: BaseException | None) -> tuple[int, str]:
    """Return the status and the sentence for a request that h11 refuses. If the head is too long, h11 does not say what
    the limit is."""
    status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
    if status == 501:
        return 400, "The request has a Transfer-Encoding that this server does not support; use chunked, only once."
    if status == 400:
        return 400, "This is not a valid HTTP request."
    return status, str(error) if "more than" in str(error) else f"The headers are longer than {LONGEST_HEAD:,} bytes."


#: The supervisor's first line if it only asks whether this process responds.
QUESTION = b"?"


class RelayedConnection(Connection):
    """A connection that the supervisor relays to this process; the first line that arrives has the client's address."""

    _introduction: bytes | None = b""  # the part of that line received so far; None when it is complete

    def data_received(self, data: bytes) -> None:
        if self._introduction is not None:
            line, end, data = (self._introduction + data).partition(b"\r\n")
            self._introduction = None if end else line
            if not end:
                return
            if line == QUESTION:
                self.transport.write(b"!")
                self.transport.close()
                return
            address, port, scheme = line.decode("ascii").split(" ")
            self.client, self.scheme = (address, int(port)), "https" if scheme == "https" else "http"
        if data:
            super().data_received(data)
