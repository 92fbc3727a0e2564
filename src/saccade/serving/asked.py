"""What a client waits for. When the client leaves, nobody computes it to its end."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request

from saccade.serving.http.refusals import Refused

__all__ = ["Asked", "Pool", "answered", "aside", "client_address", "size_of"]

Result = TypeVar("Result")
P = ParamSpec("P")
#: Requests of a pool that compute at once.
THREADS = 4
#: Who makes the request that is being answered: models take turns between addresses.
client_address: ContextVar[str] = ContextVar("client_address", default="")


#: Bytes of a request that is read faster than a thread would be found for it: a sentence or two.
SMALL = 1024
#: What is large is read two at a time, so that many such requests leave time for others.
_readers = ThreadPoolExecutor(2, "reading")


async def aside(size: float, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """The result of reading so many bytes: in a thread, unless they are few; what is small never waits for one."""
    if size <= SMALL:
        return function(*args, **kwargs)
    call = functools.partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_readers, call)


async def size_of(request: Request, *inputs: Any) -> float:
    """How many bytes a request has. A picture counts as large: few bytes may hold many pixels."""
    if not all(isinstance(one, str) for one in inputs):
        return float("inf")
    return len(await request.body()) + len(request.url.query)


class Asked(Future[Result]):
    """A result that comes later, and whether anyone still waits for it."""

    is_abandoned = False

    def abandon(self) -> None:
        """Nobody waits any more: what has not begun never will, and what has begun ends at its next check."""
        self.is_abandoned = True
        self.cancel()


class Pool:
    """Threads for what needs no model: so many compute at once, so many may wait."""

    def __init__(self, waiting: int) -> None:
        self._most = THREADS + waiting
        self._count = 0  # that compute or wait
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "pool")

    def run(self, work: Callable[[Asked[Result]], Result]) -> Asked[Result]:
        """Something to compute; it is told of who asked, to see whether they still wait."""
        asked = Asked[Result]()
        with self._lock:
            if self._count >= self._most:
                raise Refused(429, f"{self._count} requests are being computed; try again in a moment.", retry_after=1)
            self._count += 1
        asked.add_done_callback(self._done)
        self._threads.submit(self._run, work, asked)
        return asked

    def _run(self, work: Callable[[Asked[Result]], Result], asked: Asked[Result]) -> None:
        if asked.set_running_or_notify_cancel():
            try:
                asked.set_result(work(asked))
            except BaseException as error:
                asked.set_exception(error)

    def _done(self, _: object) -> None:
        with self._lock:
            self._count -= 1


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
        waiting.cancel()  # so that nobody misses what becomes of it
        if not asked.done():
            asked.abandon()


async def _left(request: Request) -> None:
    await request.body()
    while (await request.receive())["type"] != "http.disconnect":
        pass
