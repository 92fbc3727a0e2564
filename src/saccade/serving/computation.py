"""A result that a client waits for; when the client disconnects, the computation stops."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

from starlette.requests import Request

from saccade.serving.http.refusals import Refused

__all__ = ["Computation", "client_address", "request_size", "wait_for"]

Result = TypeVar("Result")
#: The network address that sent the current request; the threads of a model take turns between addresses.
client_address: ContextVar[str] = ContextVar("client_address", default="")


async def request_size(request: Request, *inputs: Any) -> float:
    """Return the size of a request in bytes; infinity if an input is not a text, because an image in a small file can
    have many pixels."""
    if not all(isinstance(one, str) for one in inputs):
        return float("inf")
    return len(await request.body()) + len(request.url.query)


class Computation(Future[Result]):
    """A future that also knows whether its client has disconnected."""

    is_abandoned = False

    def abandon(self) -> None:
        """Tell the computation that its client has left, so that it does not start, or stops at its next check."""
        self.is_abandoned = True
        self.cancel()


async def wait_for(request: Request, computation: Computation[Result]) -> Result:
    """Wait for the result of a computation; if the client disconnects first, abandon the computation."""

    async def disconnected() -> None:
        await request.body()
        while (await request.receive())["type"] != "http.disconnect":
            pass

    waiting, leaving = asyncio.wrap_future(computation), asyncio.create_task(disconnected())
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        raise Refused(499, "The client has disconnected.")
    finally:
        leaving.cancel()
        waiting.cancel()  # so that asyncio does not warn about a result nobody retrieved
        if not computation.done():
            computation.abandon()
