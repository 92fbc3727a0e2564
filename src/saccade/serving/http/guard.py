"""The outermost layer of the server: checks who may send requests, how large they may be, and how many at once."""

from __future__ import annotations

import asyncio
import functools
import hmac
import ipaddress
import logging
import time
from collections.abc import Collection
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from saccade.serving.computation import client_address
from saccade.serving.http.crowding import network_of
from saccade.serving.http.exchange import Exchange
from saccade.serving.http.places import Places
from saccade.serving.http.refusals import Refused
from saccade.serving.http.shares import Timed
from saccade.serving.state import ServerState

__all__ = ["PAGES", "Guard", "is_loopback", "same_key"]

_log = logging.getLogger(__name__)

#: Always answered, however busy the server is: for monitoring.
ALWAYS = ("/health", "/ready", "/metrics")
#: Answered without a key, like the page itself.
OPEN = ("/health", "/ready", "/languages", "/docs", "/openapi.json", "/static/")
#: The paths of the studio's pages, all of which are the same HTML file.
PAGES = ("/", "/learn", "/ask", "/walk", "/map", "/runs", "/words")
#: These also accept the key in the body, and check it themselves.
KEY_IN_BODY = ("/translate", "/detect")
#: Most bytes and fields of a query string. It is decoded on the event loop, which takes up to 0.3 microseconds a byte.
LONGEST_QUERY, MOST_FIELDS = 1 << 13, 100


class Guard:
    """The ASGI application that checks each request before it passes it on.

    A request counts towards the maximum number of requests only when its body is complete, so a client cannot block
    others by sending slowly. Requests with and without the API key are counted separately, so clients without the key
    cannot lock out those who have it.
    """

    def __init__(self, app: ASGIApp, state: ServerState, hosts: Collection[str]) -> None:
        self.app = app
        self.state = state
        self.hosts = frozenset(host.lower() for host in hosts)
        limits = state.limits
        bodies, requests = "The requests in progress have too many bytes", "There are too many requests at once"
        self._bodies = Places(limits.all_bodies, limits.address_bodies, bodies)
        self._places = Places(limits.requests, limits.address_requests, requests)
        self._strange_bodies = Places(limits.strange_bodies, limits.strange_bodies // 4, bodies)
        self._strange_places = Places(limits.strange_requests, limits.strange_requests // 2, requests)
        self._shares = state.shares

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # startup and shutdown
            await self.app(scope, receive, send)
            return
        address = network_of(str((scope.get("client") or ("",))[0]))
        await Timed(self._answer(address, scope, receive, send), functools.partial(self._shares.spend, address))

    async def _answer(self, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        scope = _origin_form(scope)
        exchange = Exchange(scope, receive, send, self.state)
        metrics = self.state.metrics
        metrics.begin()
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            await self._shares.enter(address)
            inner = _without_unread(inner)
            await self._let_in(address, inner, exchange)
        except Refused as error:
            if not exchange.status:
                await exchange.refuse(error)
        except (ClientDisconnect, asyncio.CancelledError):
            pass  # nobody is waiting for an answer
        except Exception:
            _log.exception("a request failed")
            if not exchange.status:
                await exchange.refuse(Refused(500, "The server failed to answer this; see its log."))
            elif not exchange.is_answered:
                raise  # in the middle of an answer: closes the connection
        finally:
            # The route's pattern rather than the path, so that names and ids do not become label values.
            route = str(getattr(inner.get("route"), "path", "other"))
            metrics.end(route, exchange.status or 499, time.monotonic() - exchange.began)

    async def _let_in(self, address: str, scope: Scope, exchange: Exchange) -> None:
        headers, path, limits = Headers(scope=scope), scope["path"], self.state.limits
        self._check_sender(scope, headers)
        key = self.state.api_key
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_known = key is None or (scheme.lower() == "bearer" and same_key(_as_sent(given.strip()), key))
        if not is_known and not (path in (*PAGES, *KEY_IN_BODY) or path.startswith(OPEN)):
            raise Refused(401, "This server needs its API key: Authorization: Bearer KEY.", asks_for="Bearer")
        limit = limits.body_bytes if is_known else limits.strange_body_bytes
        length = exchange.announced(limit)
        if length > limit:
            where = "" if is_known else " without the API key in a header: Authorization: Bearer KEY"
            raise Refused(413, f"The request is larger than {limit:,} bytes, which is the limit{where}.")
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
        """Refuse requests that another site's page makes through a user's browser.

        A site can point its own name at this server (DNS rebinding), so the Host header must be a name of this server
        or an IP address.
        """
        header = headers.get("host", "")
        name = header.rpartition(":")[0] if ":" in header and not header.endswith("]") else header
        host = name.strip("[]").lower()
        if host not in self.hosts:
            try:
                ipaddress.ip_address(host)
            except ValueError:
                sentence = "The Host header is not a name of this server; to accept it, start with --allow-host."
                raise Refused(400, sentence) from None
        origin = headers.get("origin")
        is_foreign = origin is not None and origin.partition("://")[2].lower() != header.lower()
        # Browsers send this header even without an Origin.
        if headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin"):
            is_link = headers.get("sec-fetch-mode", "").lower() == "navigate" and scope["path"] in PAGES
            is_foreign = is_foreign or not is_link
        if is_foreign:
            raise Refused(403, "This server answers requests from its own pages, not from pages of other sites.")


def _without_unread(scope: Scope) -> Scope:
    """Remove what no route reads, because FastAPI would decode it: cookies, and the query strings of pages.

    Refuse other query strings that are too long.
    """
    query = b"" if scope["path"] in PAGES else scope.get("query_string", b"")
    if len(query) > LONGEST_QUERY:
        raise Refused(414, f"The query string is longer than {LONGEST_QUERY:,} bytes; send long texts in the body.")
    if query.count(b"&") >= MOST_FIELDS:
        raise Refused(400, f"The query string has more than {MOST_FIELDS} fields.")
    headers = [(name, value) for name, value in scope["headers"] if name != b"cookie"]
    return {**scope, "query_string": query, "headers": headers}


def same_key(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode("utf-8", "replace"))


def _as_sent(header: str) -> str:
    """Return the text of a header, which the server has decoded as Latin-1 although most clients send UTF-8."""
    try:
        return header.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return header


def is_loopback(host: str) -> bool:
    """Return whether a host name or address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _origin_form(scope: Scope) -> Scope:
    """Turn a request target that is a whole URL, as sent to proxies, into a path; its host replaces the Host header."""
    target = scope.get("raw_path", b"").decode("ascii", "replace")
    if not target.lower().startswith(("http://", "https://")):
        return scope
    try:
        url = urlsplit(target)
    except ValueError:  # an unmatched bracket
        return scope
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    path = url.path or "/"
    return {
        **scope,
        "path": unquote(path),
        "raw_path": path.encode("ascii", "replace"),
        "headers": [*headers, (b"host", url.netloc.rpartition("@")[2].encode("ascii", "replace"))],
    }
