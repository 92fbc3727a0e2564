"""One request and its answer, with limits on the size of the body and on the time in which the client must send it, and
with the headers that every answer has."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import unquote_plus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from saccade.serving.http.crowding import network_of
from saccade.serving.http.refusals import Refused, refusal
from saccade.serving.state import ServerState

__all__ = ["SECURITY_HEADERS", "Exchange"]

#: Pages may load scripts, styles and data only from this server, and inline scripts do not run.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",  # unless a route says otherwise
}


def _embedded(scope: Scope, origins: tuple[str, ...]) -> dict[str, str]:
    """Return the headers that let pages of these origins show a read-only view in a frame."""
    if not origins or _values(scope, "embed") != [b"1"]:
        return {}
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    return {"Content-Security-Policy": policy.replace("frame-ancestors 'none'", f"frame-ancestors {' '.join(origins)}")}


def _values(scope: Scope, name: str) -> list[bytes]:
    """Return the values of a field of the query string, as they were sent; other fields, perhaps long, are not read."""
    pairs = (field.partition(b"=") for field in scope.get("query_string", b"").split(b"&"))
    short = ((key, value) for key, _, value in pairs if len(key) <= 3 * len(name))
    return [value for key, value in short if unquote_plus(key.decode("latin-1")) == name]


#: Answers of at most this many bytes are sent even to clients that do not read.
SMALL_ANSWER = 1 << 16


class Exchange:
    """One request and its response. Call ``read`` first; the application then gets the whole body at once."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, state: ServerState) -> None:
        self.began = time.monotonic()
        self.status = 0
        self.is_answered = False
        self._scope, self._receive, self._send = scope, receive, send
        self._state = state
        self._body: bytes | None = None

    def announced(self, limit: int) -> int:
        """Return the size of the body according to its headers; for a chunked body, whose size is not known in advance,
        return ``limit``."""
        headers = Headers(scope=self._scope)
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "The server does not decompress requests; send the body without Content-Encoding.")
        if "transfer-encoding" in headers:
            if "content-length" in headers:  # a proxy might read it differently (request smuggling)
                said = "The request has both Content-Length and Transfer-Encoding; send one of them."
                raise Refused(400, said, closes=True)
            return limit
        length = headers.get("content-length", "0")
        return int(length) if length.isdecimal() and len(length) < 20 else limit + 1

    async def read(self, limit: int, seconds: float) -> None:
        """Receive the whole body; refuse it if it is longer than ``limit`` bytes or takes longer than ``seconds``."""
        body = bytearray()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise Refused(413, f"The request is larger than {limit:,} bytes, which is the limit.")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Refused(408, f"The request did not arrive within {seconds:g} seconds.") from None
        self._body = bytes(body)

    async def receive(self) -> Message:
        if self._body is None:  # all that can come now is a disconnect
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if self.is_answered:  # the body of an answer to HEAD
            return
        if message["type"] == "http.response.start":
            if message["status"] == 429:
                self._scope.setdefault("state", {})["is_refused"] = True  # its connection may be closed for others
                await self._state.refused.hold()
            headers = MutableHeaders(scope=message)
            if not self._has_room(headers.get("content-length", "")):
                said = "Too many bytes of answers have not been read yet; read yours, or try again in a moment."
                await self.refuse(Refused(429, said, retry_after=1))
                return
            self.status = message["status"]
            for name, value in (SECURITY_HEADERS | _embedded(self._scope, self._state.embedders)).items():
                headers.setdefault(name, value)
            if self._state.draining:  # so that the client does not reuse the connection
                headers["Connection"] = "close"
        else:
            if self._scope["method"] == "HEAD":
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            self.is_answered = not message.get("more_body", False)
        await self._send(message)

    def _has_room(self, length: str) -> bool:
        """Return whether an answer of this many bytes may be sent to a client that perhaps reads none."""
        count = int(length) if length.isdecimal() else 0
        address = network_of(str((self._scope.get("client") or ("",))[0]))
        return count <= SMALL_ANSWER or self._state.unread.has_room(address, count)

    async def refuse(self, error: Refused) -> None:
        self._body = None  # no longer counted, and the refusal may be held back
        await refusal(self._scope["path"], error.status, str(error), error.headers)(
            self._scope, self._receive, self.send
        )
