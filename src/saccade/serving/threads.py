"""Threads for work that needs no model, such as parsing requests or drawing pictures; clients take turns."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from saccade.serving.computation import Computation, client_address
from saccade.serving.http.refusals import Refused
from saccade.serving.turns import Job, Queue

__all__ = ["REST", "Pool", "is_small", "offload", "parse_apart", "share_readers"]

Result = TypeVar("Result")
P = ParamSpec("P")
#: How many threads a pool has, and how many of them one client may use at a time: a picture may take minutes.
THREADS, EACH = 4, 2
#: Requests up to this size are parsed on the event loop, because handing them to a thread would take longer.
SMALL_BYTES = 1024
#: After a request is parsed, its client waits this many times as long as that took before its next request is parsed.
REST = 3.0
#: However long a job took, its client does not pause for more seconds than this.
LONGEST_REST = 10.0
#: How often a pool checks whether a client that pauses is alone again.
CHECK_SECONDS = 1.0


class Pool:
    """A few threads that run jobs from a queue of limited length.

    With ``rest``, the next job of a client starts only after a pause ``rest`` times as long as its last job took.
    Python's JSON parser, for example, stops all other threads until it is done, so a client that sends many large
    requests would otherwise leave hardly any time for answers to other clients.

    ``is_shared`` says whether clients other than the given one are sending requests. If none is, the client does not
    pause; otherwise it may use only one thread.
    """

    def __init__(
        self,
        waiting: int,
        threads: int = THREADS,
        each: int = EACH,
        rest: float = 0.0,
        is_shared: Callable[[str], bool] | None = None,
    ) -> None:
        self._most = waiting
        self._threads, self._each, self._rest = threads, each, rest
        self._is_shared = is_shared
        self._has_started = False
        self._queue = Queue(waiting)
        self._changed = threading.Condition()
        self._running: Counter[str] = Counter()  # threads by client
        self._rests_until: dict[str, float] = {}  # by client

    def run(self, work: Callable[[Computation[Result]], Result]) -> Computation[Result]:
        """Queue a function to be run in a thread; return its pending result.

        The function gets this result, a ``Computation``, as its argument, to see whether the client has disconnected.
        """
        computation = Computation[Result]()
        job = Job(client_address.get(), (), lambda: work(computation), computation=computation)
        with self._changed:
            self._start()
            for other in self._queue.in_turn():
                if other.computation.cancelled():  # its client has left
                    self._queue.remove(other)
            lost = self._queue.put(job, self._running.total())
            self._changed.notify()
        if lost is not None:
            error = Refused(429, f"{self._most} requests are already waiting; try again in a moment.", retry_after=1)
            if lost is job:
                raise error
            if lost.computation.set_running_or_notify_cancel():
                lost.computation.set_exception(error)
        return computation

    def _start(self) -> None:
        if not self._has_started:
            self._has_started = True
            for number in range(self._threads):
                threading.Thread(target=self._work, name=f"pool-{number}", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._do(self._take())

    def _do(self, job: Job) -> None:
        began, worked = time.monotonic(), time.thread_time()
        assert job.function is not None
        try:
            job.computation.set_result(job.function())
        except BaseException as error:
            job.computation.set_exception(error)
        rest = min(self._rest * (time.thread_time() - worked), LONGEST_REST)
        with self._changed:
            now = time.monotonic()
            self._queue.charge(job, now - began)
            self._queue.remove(job)
            self._running[job.client] -= 1
            self._running += Counter()  # drops clients that have none
            self._rests_until = {one: until for one, until in self._rests_until.items() if until > now}
            if rest:
                self._rests_until[job.client] = now + rest
            self._changed.notify_all()

    def _take(self) -> Job:
        """The next job; its thread waits while there is none."""
        with self._changed:
            while True:
                rests = []
                for job in self._queue.in_turn():
                    left = self._rests_until.get(job.client, 0.0) - time.monotonic()
                    is_shared = None if self._is_shared is None else self._is_shared(job.client)
                    if job.begun or self._running[job.client] >= (1 if is_shared else self._each):
                        continue
                    if left > 0 and is_shared is not False:
                        rests.append(left)
                        continue
                    job.begun = job.computation.set_running_or_notify_cancel()
                    if job.begun:
                        self._running[job.client] += 1
                        return job
                    self._queue.remove(job)
                if rests and self._is_shared is not None:
                    rests.append(CHECK_SECONDS)
                self._changed.wait(min(rests, default=None))


#: One thread parses requests of up to 64 KiB and another parses larger ones, so that a page of text does not wait for
#: megabytes. ``Guard`` has already limited the number of requests, so these queues need no limit.
_parsers = {size: Pool(sys.maxsize, threads=1, each=1, rest=REST) for size in (1 << 16, sys.maxsize)}
_is_shared: Callable[[str], bool] = lambda client: False  # noqa: E731 - the server of this process replaces it
#: Only two large requests are read at a time, so that many of them cannot use up the processor.
_readers = Pool(sys.maxsize, threads=2, each=1, rest=REST, is_shared=lambda client: _is_shared(client))


def share_readers(is_shared: Callable[[str], bool]) -> None:
    """Let clients pause between large requests that are read, while ``is_shared`` says that others send requests."""
    global _is_shared
    _is_shared = is_shared


def is_small(size: float) -> bool:
    """Return whether a request of this many bytes is handled on the event loop, not in a thread."""
    return size <= SMALL_BYTES


async def parse_apart(size: int, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Call a function that parses a body of this size: in a thread if the body is large, otherwise directly."""
    if is_small(size):
        return function(*args, **kwargs)
    parser = next(one for most, one in _parsers.items() if size <= most)
    return await asyncio.wrap_future(parser.run(lambda _: function(*args, **kwargs)))


async def offload(size: float, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Call a function that reads inputs of this size: in a thread if they are large, otherwise directly."""
    if is_small(size):
        return function(*args, **kwargs)
    call = functools.partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.wrap_future(_readers.run(lambda _: call()))
