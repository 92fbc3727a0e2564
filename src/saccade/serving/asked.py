"""What a client waits for. When the client leaves, nobody computes it to its end."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

from starlette.requests import Request

from saccade.serving.refusals import Refused

__all__ = ["Asked", "answered"]

Result = TypeVar("Result")


class Asked(Future[Result]):
    """A result that comes later, and whether anyone still waits for it."""

    is_abandoned = False

    def abandon(self) -> None:
        """Nobody waits any more: what has not begun never will, and what has begun ends at its next check."""
        self.is_abandoned = True
        self.cancel()


async def answered(request: Request, asked: Asked[Result]) -> Result:
    """The result, unless the client leaves before."""
    waiting = asyncio.wrap_future(asked)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        raise Refused(499, "The client has left.")
    finally:
        leaving.cancel()
        if not asked.done():
            asked.abandon()


async def _left(request: Request) -> None:
    await request.body()
    while (await request.receive())["type"] != "http.disconnect":
        pass
