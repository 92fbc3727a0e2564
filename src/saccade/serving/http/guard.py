"""What stands before every request: who may ask, how much they may send, and what a browser may do with the answer."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from saccade.serving.http.refusals import Refused, refusal
from saccade.serving.state import State

__all__ = ["SECURITY_HEADERS", "Guard", "is_loopback", "same_key"]

_log = logging.getLogger(__name__)

#: Scripts, styles and data come from this server alone, and nothing written into a page runs.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: Answered however many ask: what watches the server.
ALWAYS = ("/health", "/ready", "/metrics")
#: Answered without a key: the page itself, and what programs ask before they have one.
OPEN = ("/health", "/ready", "/languages", "/docs", "/openapi.json", "/static/")
PAGES = ("/", "/ask", "/walk", "/map", "/runs", "/words")
#: These take the key in the request itself, too, and check it there.
KEY_IN_BODY = ("/translate", "/detect")


class Guard:
    """The outermost layer of the server."""

    def __init__(self, app: ASGIApp, state: State, hosts: Collection[str]) -> None:
        self.app = app
        self.state = state
        self.hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the start and the end of the server
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self.state)
        metrics = self.state.metrics
        metrics.begin()
        try:
            self._check(scope)
            await self.app(scope, exchange.receive, exchange.send)
        except Refused as error:
            await exchange.refuse(error)
        except (ClientDisconnect, asyncio.CancelledError):
            pass  # nobody waits for an answer any more
        except Exception:
            _log.exception("a request failed")
            if not exchange.status:
                await exchange.refuse(Refused(500, "The server failed to answer this; its log says why."))
            elif not exchange.is_answered:
                raise  # in the middle of an answer: the connection ends
        finally:
            metrics.end(_route(scope), exchange.status or 499, time.monotonic() - exchange.began)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = _host(headers.get("host", ""))
        if not (host in self.hosts or _is_address(host)):
            raise Refused(400, "The Host of this request is not a name of this server; start it with --allow-host.")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
            raise Refused(403, "This server answers its own page only, not other pages.")
        if self.state.metrics.in_flight > self.state.limits.requests and not scope["path"].startswith(ALWAYS):
            raise Refused(429, "The server has too many requests at once; try again in a moment.", retry_after=1)
        self._check_key(scope["path"], headers)

    def _check_key(self, path: str, headers: Headers) -> None:
        key = self.state.api_key
        if key is None or path in (*PAGES, *KEY_IN_BODY) or path.startswith(OPEN):
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not same_key(given.strip(), key):
            raise Refused(401, "This server asks for its API key: Authorization: Bearer KEY.", asks_for="Bearer")


class _Exchange:
    """One request and its answer, counted and bounded."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, state: State) -> None:
        self.began = time.monotonic()
        self.status = 0
        self.is_answered = False
        self._scope, self._receive, self._send = scope, receive, send
        self._state = state
        self._limit = state.limits.body_bytes
        self._received = 0
        self._has_all = False

    async def receive(self) -> Message:
        length = Headers(scope=self._scope).get("content-length", "0")
        if not length.isdecimal() or int(length) > self._limit:
            raise self._too_large()
        message = await self._received_in_time()
        self._received += len(message.get("body", b""))
        if self._received > self._limit:
            raise self._too_large()
        return message

    async def _received_in_time(self) -> Message:
        """The next part of the request; once it is whole, what is awaited is only that the client leaves."""
        if self._has_all:
            return await self._receive()
        seconds = self._state.limits.client_seconds
        try:
            async with asyncio.timeout(self.began + seconds - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408, f"The request did not come within {seconds:g} seconds.") from None
        self._has_all = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if self._state.draining:  # else a client would send its next request to a connection that is closed
                headers["Connection"] = "close"
        await self._send(message)
        self.is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def refuse(self, error: Refused) -> None:
        await refusal(self._scope["path"], error.status, str(error), error.headers)(
            self._scope, self._receive, self.send
        )

    def _too_large(self) -> Refused:
        return Refused(413, f"The request is larger than {self._limit:,} bytes, which is the most that is taken.")


def same_key(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode("utf-8", "replace"))


def is_loopback(host: str) -> bool:
    """Whether an address to listen at is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(header: str) -> str:
    """The name in a Host header, without its port."""
    name = header.rpartition(":")[0] if ":" in header and not header.endswith("]") else header
    return name.strip("[]").lower()


def _is_address(host: str) -> bool:
    """A page of another site that has its own name point here is stopped by its name; an address has none."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _route(scope: Scope) -> str:
    """The pattern of a path, so that names and numbers in it make no series of their own."""
    return str(getattr(scope.get("route"), "path", "other"))
