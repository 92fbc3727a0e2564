"""Share the time of the event loop, so that a client with many connections leaves time for the requests of others.

Reading requests, refusing them and sending answers all happen on the event loop, one after another. Each takes a few
milliseconds at most, but a client can send hundreds of requests at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from typing import Any
from weakref import WeakValueDictionary

from saccade.serving.http.refusals import Refused

__all__ = ["Shares", "Timed"]

#: If other addresses send requests too, an address waits before its next request: this many times as long as its last
#: one took, but at most so many seconds, however much time it used while it was alone.
REST, LONGEST_REST = 2.0, 1.0
#: For this many seconds after its last request, an address counts as sending requests.
PRESENT = 1.0
#: How many requests of one address may wait to begin.
MOST_WAITING = 256


class Shares:
    """Makes an address wait after it has used time of the event loop, if others send requests too.

    Use only from the event loop, except for ``is_shared``.
    """

    def __init__(self) -> None:
        self._rests_until: dict[str, float] = {}
        self._gates: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # one request passes at a time
        self._waiting: Counter[str] = Counter()
        self._last = self._other = ("", float("-inf"))  # the addresses that sent last, and when

    async def enter(self, address: str) -> None:
        """Wait until a request of this address may begin; if no other address sends requests, it begins at once."""
        now = time.monotonic()
        if self._last[0] != address:
            self._other = self._last
        self._last = (address, now)
        if not self.is_shared(address) or (self._rests_until.get(address, 0.0) <= now and not self._waiting[address]):
            return
        if self._waiting[address] >= MOST_WAITING:
            raise Refused(429, "There are too many requests at once; try again in a moment.", retry_after=1)
        gate = self._gates.setdefault(address, asyncio.Lock())
        self._waiting[address] += 1
        try:
            async with gate:
                await asyncio.sleep(self._rests_until.get(address, 0.0) - time.monotonic())
        finally:
            self._waiting[address] -= 1
            self._waiting += Counter()  # drops addresses that have none

    def is_shared(self, address: str) -> bool:
        """Return whether another address than this one has sent a request in the last second; any thread may ask."""
        last, other = self._last, self._other
        return time.monotonic() - (other if last[0] == address else last)[1] <= PRESENT

    def spend(self, address: str, seconds: float) -> None:
        """Record that a request of this address has used the event loop for this many seconds."""
        now = time.monotonic()
        rests_until = max(now, self._rests_until.get(address, 0.0)) + REST * seconds
        self._rests_until[address] = min(rests_until, now + LONGEST_REST)
        if len(self._rests_until) > 1000:
            self._rests_until = {one: until for one, until in self._rests_until.items() if until > now}


class Timed:
    """Runs a coroutine when it is awaited, and reports the processor time that each of its parts takes.

    A part is what runs between two waits, while nothing else can run on the event loop.
    """

    def __init__(self, work: Coroutine[Any, Any, None], spend: Callable[[float], None]) -> None:
        self._work, self._spend = work, spend

    def __await__(self) -> Generator[Any, None, None]:
        raised: BaseException | None = None
        while True:
            began = time.thread_time()
            try:
                awaited = self._work.send(None) if raised is None else self._work.throw(raised)
            except StopIteration:
                return
            finally:
                self._spend(time.thread_time() - began)
            try:
                yield awaited
            except BaseException as error:  # the task is cancelled
                raised = error
            else:
                raised = None
