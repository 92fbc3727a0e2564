"""A result that a client waits for; when the client disconnects, the computation stops."""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request

from saccade.serving.http.refusals import Refused

__all__ = ["Computation", "Parser", "client_address", "offload", "parse_apart", "request_size", "wait_for"]

Result = TypeVar("Result")
P = ParamSpec("P")
#: Where the current request comes from; models take turns between addresses.
client_address: ContextVar[str] = ContextVar("client_address", default="")

#: Requests up to this size are parsed on the event loop, because handing them to a thread would take longer.
SMALL_BYTES = 1024
#: Only two large requests are read at a time, so that many of them cannot use up the processor.
_readers = ThreadPoolExecutor(2, "reading")
#: How many times as long as it has just worked a parsing thread rests.
REST = 3.0


class Parser:
    """A thread that parses one request at a time and pauses after each.

    Python's JSON parser stops all other threads until it is done, so without the pauses, clients that send many large
    requests would leave hardly any time for the others' answers.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "parsing")
        self._rests_until = 0.0

    async def run(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        def parse() -> Result:
            time.sleep(max(0.0, self._rests_until - time.monotonic()))
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._rests_until = time.monotonic() + REST * (time.thread_time() - began)

        return await asyncio.get_running_loop().run_in_executor(self._thread, parse)


#: The parsers of requests up to these sizes in bytes, so that a page of text does not wait for others' megabytes.
_parsers = {1 << 16: Parser(), sys.maxsize: Parser()}


async def parse_apart(size: int, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Call a function that parses a body of this size: in a thread if the body is large, otherwise directly."""
    if size <= SMALL_BYTES:
        return function(*args, **kwargs)
    parser = next(one for most, one in _parsers.items() if size <= most)
    return await parser.run(function, *args, **kwargs)


async def offload(size: float, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Call a function that reads inputs of this size: in a thread if they are large, otherwise directly."""
    if size <= SMALL_BYTES:
        return function(*args, **kwargs)
    call = functools.partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_readers, call)


async def request_size(request: Request, *inputs: Any) -> float:
    """The size of a request in bytes. Images count as infinitely large, because few bytes can hold many pixels."""
    if not all(isinstance(one, str) for one in inputs):
        return float("inf")
    return len(await request.body()) + len(request.url.query)


class Computation(Future[Result]):
    """A future that also knows whether anyone still waits for it."""

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
