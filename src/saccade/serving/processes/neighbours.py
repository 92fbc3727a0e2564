"""Send requests to the other workers of the same server, because each keeps its own metrics and looks (the recorded
attention of answers).

The id of a look starts with the number of its worker. A worker that gets a request for the look of another worker
passes the request on to that worker.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from saccade.serving.http.refusals import Refused

__all__ = ["Neighbours", "socket_path"]

LOOKS = "/api/looks/"
#: How long a worker that is asked for metrics may take; one that hangs must not hide the metrics of the others.
METRICS_SECONDS = 5.0
#: Headers that belong to one connection.
_HOP = (b"connection", b"transfer-encoding", b"expect", b"keep-alive", b"content-length")


def socket_path(folder: Path, number: int) -> Path:
    """Return the path of the socket at which a worker listens."""
    return folder / f"worker-{number}.sock"


class Neighbours:
    """All workers of a server, as seen by one of them."""

    def __init__(self, folder: Path, number: int, count: int) -> None:
        self.folder, self.number, self.count = folder, number, count

    def passing_on(self, app: ASGIApp) -> ASGIApp:
        """Return the application, wrapped so that requests for a look of another worker go to that worker."""

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            path = str(scope.get("path", ""))
            owner = path.removeprefix(LOOKS).partition("-")[0] if path.startswith(LOOKS) else ""
            if owner.isdecimal() and owner != str(self.number) and owner in map(str, range(self.count)):
                await self._pass_on(int(owner), scope, receive, send)
            else:
                await app(scope, receive, send)

        return handle

    async def _pass_on(self, owner: int, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = Route(f"{LOOKS}{{id}} (passed on)", endpoint=self._pass_on)  # for the metrics
        body = (await receive()).get("body", b"")
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        headers = [(name, value) for name, value in scope["headers"] if name not in _HOP]
        reading = asyncio.create_task(self._ask(owner, scope["method"], target, headers, body, scope.get("client")))
        leaving = asyncio.ensure_future(receive())
        await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not reading.done():  # closes the connection, so the other worker stops too
            reading.cancel()
            raise Refused(499, "The client has disconnected.")
        status, answer_headers, content = reading.result()
        await send({"type": "http.response.start", "status": status, "headers": answer_headers})
        await send({"type": "http.response.body", "body": content})

    async def _ask(
        self,
        owner: int,
        method: str,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        body: bytes = b"",
        client: tuple[str, int] | None = None,
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        address, port = client or ("127.0.0.1", 0)
        lines = [f"{address} {port} http".encode(), b"%b %b HTTP/1.1" % (method.encode(), target)]
        lines += [b"%b: %b" % header for header in headers]
        lines += [b"connection: close", b"content-length: %d" % len(body), b"", body]
        try:
            reader, writer = await asyncio.open_unix_connection(str(socket_path(self.folder, owner)))
            try:
                writer.write(b"\r\n".join(lines))
                found = await reader.read()
            finally:
                writer.transport.abort()
        except OSError:
            found = b""
        head, _, content = found.partition(b"\r\n\r\n")
        first, *rest = head.split(b"\r\n")
        pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in rest)]
        length = int(dict(pairs).get(b"content-length", b"-1"))
        if not first or length != len(content):
            raise Refused(503, "The process that kept this look has stopped; request the look again.", retry_after=1)
        kept = [(name, value) for name, value in pairs if name not in (b"connection", b"date")]
        return int(first.split()[1]), kept, content

    async def metrics(self, headers: list[tuple[bytes, bytes]]) -> list[str]:
        """Return the metrics of every other worker that answers in time, as texts."""
        others = [number for number in range(self.count) if number != self.number]
        passed = [(name, value) for name, value in headers if name not in _HOP]
        asked = (asyncio.wait_for(self._ask(one, "GET", b"/metrics?own=1", passed), METRICS_SECONDS) for one in others)
        found = await asyncio.gather(*asked, return_exceptions=True)
        return [one[2].decode() for one in found if not isinstance(one, BaseException) and one[0] == 200]
