"""A result that a client waits for; when the client disconnects, the computation stops."""

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

__all__ = ["Computation", "Pool", "client_address", "offload", "request_size", "wait_for"]

Result = TypeVar("Result")
P = ParamSpec("P")
#: Threads of a pool.
THREADS = 4
#: Where the current request comes from; models take turns between addresses.
client_address: ContextVar[str] = ContextVar("client_address", default="")

#: Requests up to this size are parsed on the event loop, because handing them to a thread would take longer.
SMALL_BYTES = 1024
#: Only two large requests are parsed at a time, so that many of them cannot use up the processor.
_parsers = ThreadPoolExecutor(2, "parsing")


async def offload(size: float, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Call a function that parses this many bytes: in a thread if they are many, otherwise right here."""
    if size <= SMALL_BYTES:
        return function(*args, **kwargs)
    call = functools.partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_parsers, call)


async def request_size(request: Request, *inputs: Any) -> float:
    """The size of a request in bytes. Images count as infinitely large, because few bytes can hold many pixels."""
    if not all(isinstance(one, str) for one in inputs):
        return float("inf")
    return len(await request.body()) + len(request.url.query)


class Computation(Future[Result]):
    """A future that also knows whether anyone still waits for it."""

    is_abandoned = False

    def abandon(self) -> None:
        """The client has left: do not start, or stop at the next check."""
        self.is_abandoned = True
        self.cancel()


class Pool:
    """Threads for work that needs no model, with a bounded queue."""

    def __init__(self, waiting: int) -> None:
        self._most = THREADS + waiting
        self._count = 0  # running or waiting
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "pool")

    def run(self, work: Callable[[Computation[Result]], Result]) -> Computation[Result]:
        """Run a function in a thread; it is given its own computation, to see whether the client still waits."""
        computation = Computation[Result]()
        with self._lock:
            if self._count >= self._most:
                raise Refused(429, f"{self._count} requests are being computed; try again in a moment.", retry_after=1)
            self._count += 1

        def compute() -> None:
            if computation.set_running_or_notify_cancel():
                try:
                    computation.set_result(work(computation))
                except BaseException as error:
                    computation.set_exception(error)

        def done(_: object) -> None:
            with self._lock:
                self._count -= 1

        computation.add_done_callback(done)
        self._threads.submit(compute)
        return computation


async def wait_for(request: Request, computation: Computation[Result]) -> Result:
    """The result; if the client disconnects first, the computation is abandoned."""

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
