"""What stands before every request: who may ask, and how much they may send."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from collections.abc import Collection
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from saccade.serving.asked import client_address
from saccade.serving.http.exchange import Exchange
from saccade.serving.http.places import Places
from saccade.serving.http.refusals import Refused
from saccade.serving.state import State

__all__ = ["Guard", "is_loopback", "same_key"]

_log = logging.getLogger(__name__)

#: Answered however many ask: what watches the server.
ALWAYS = ("/health", "/ready", "/metrics")
#: Answered without a key: the page itself, and what programs ask before they have one.
OPEN = ("/health", "/ready", "/languages", "/docs", "/openapi.json", "/static/")
PAGES = ("/", "/ask", "/walk", "/map", "/runs", "/words")
#: These take the key in the request itself, too, and check it there.
KEY_IN_BODY = ("/translate", "/detect")


class Guard:
    """The outermost layer of the server.

    A request takes its place when its body is whole, so that nobody holds one by sending slowly. Those who gave the
    key and those who did not are counted apart: strangers can never keep out who has it.
    """

    def __init__(self, app: ASGIApp, state: State, hosts: Collection[str]) -> None:
        self.app = app
        self.state = state
        self.hosts = frozenset(host.lower() for host in hosts)
        limits = state.limits
        bodies, requests = "The requests on their way are too large together", "There are too many requests at once"
        self._bodies = Places(limits.all_bodies, limits.address_bodies, bodies)
        self._places = Places(limits.requests, limits.address_requests, requests)
        self._strange_bodies = Places(limits.strange_bodies, limits.strange_bodies // 4, bodies)
        self._strange_places = Places(limits.strange_requests, limits.strange_requests // 2, requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the start and the end of the server
            await self.app(scope, receive, send)
            return
        scope = _origin_form(scope)
        exchange = Exchange(scope, receive, send, self.state)
        metrics = self.state.metrics
        metrics.begin()
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            await self._let_in(inner, exchange)
        except Refused as error:
            if not exchange.status:
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
            metrics.end(_route(inner), exchange.status or 499, time.monotonic() - exchange.began)

    async def _let_in(self, scope: Scope, exchange: Exchange) -> None:
        headers, path, limits = Headers(scope=scope), scope["path"], self.state.limits
        self._check_sender(scope, headers)
        is_known = self._is_known(headers)
        if not is_known and not (path in (*PAGES, *KEY_IN_BODY) or path.startswith(OPEN)):
            raise Refused(401, "This server asks for its API key: Authorization: Bearer KEY.", asks_for="Bearer")
        limit = limits.body_bytes if is_known else limits.strange_body_bytes
        length = exchange.announced(limit)
        if length > limit:
            where = "" if is_known else " without the API key in a header: Authorization: Bearer KEY"
            raise Refused(413, f"The request is larger than {limit:,} bytes, which is the limit{where}.")
        address = str((scope.get("client") or ("",))[0])
        bodies, places = (self._bodies, self._places) if is_known else (self._strange_bodies, self._strange_places)
        client_address.set(address)
        with bodies.taken(address, length):
            await exchange.read(limit, limits.client_seconds if is_known else limits.stranger_seconds)
            if path in ALWAYS:
                await self.app(scope, exchange.receive, exchange.send)
                return
            with places.taken(address):
                await self.app(scope, exchange.receive, exchange.send)

    def _check_sender(self, scope: Scope, headers: Headers) -> None:
        """A page of another site must not reach this server through the browser of someone who can."""
        host = _host(headers.get("host", ""))
        if not (host in self.hosts or _is_address(host)):
            raise Refused(400, "The Host of this request is not a name of this server; start it with --allow-host.")
        origin = headers.get("origin")
        is_foreign = origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()
        # Browsers say of every request, also of those without an Origin, which kind of page has made it.
        if headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
            is_link = headers.get("sec-fetch-mode", "").lower() == "navigate" and scope["path"] in PAGES
            is_foreign = is_foreign or not is_link
        if is_foreign:
            raise Refused(403, "This server answers its own page only, not other pages.")

    def _is_known(self, headers: Headers) -> bool:
        """Whether the key was given, or none is asked for."""
        key = self.state.api_key
        kind, _, given = headers.get("authorization", "").partition(" ")
        return key is None or (kind.lower() == "bearer" and same_key(given.strip(), key))


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


def _origin_form(scope: Scope) -> Scope:
    """A target that is a whole URL, as proxies send it, as a path; the name in it then counts as the Host."""
    target = scope.get("raw_path", b"").decode("ascii", "replace")
    if not target.lower().startswith(("http://", "https://")):
        return scope
    try:
        url = urlsplit(target)
    except ValueError:  # a bracket without its other half
        return scope
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    path = url.path or "/"
    return {
        **scope,
        "path": unquote(path),
        "raw_path": path.encode("ascii", "replace"),
        "headers": [*headers, (b"host", url.netloc.rpartition("@")[2].encode("ascii", "replace"))],
    }


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
