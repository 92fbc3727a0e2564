"""Limits on how many requests, and how many bytes, the server handles at once, in total and per address."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from saccade.serving.http.refusals import Refused

__all__ = ["Crowd", "Places", "Unread"]

#: Refusals per second when many clients are refused, and the longest that one is held back, in seconds.
REFUSALS, LONGEST_HOLD = 128, 4.0


class Places:
    """Limits how many requests or bytes are in progress, in total and per address. Use only from the event loop."""

    def __init__(self, most: int, each: int, refusal: str) -> None:
        self.most, self.each = most, each
        self._refusal = refusal
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, address: str, count: int = 1) -> Iterator[None]:
        """Take ``count`` places until the ``with`` block ends; refuse the request if there are not enough left."""
        if self._taken.total() + count > self.most or self._taken[address] + count > self.each:
            raise Refused(429, f"{self._refusal}; try again in a moment.", retry_after=1)
        self._taken[address] += count
        try:
            yield
        finally:
            self._taken[address] -= count
            self._taken += Counter()  # drops addresses that have none


class Unread:
    """Counts the bytes of answers that clients have not read yet. Use only from the event loop.

    They stay in memory until they are read, so a client that reads no answers must not get many.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each = most, each
        self._bytes: Counter[str] = Counter()

    def change(self, address: str, count: int) -> None:
        """Add this many bytes for an address, or remove them if the number is negative."""
        self._bytes[address] += count
        self._bytes += Counter()  # drops addresses that have read everything

    def has_room(self, address: str, count: int) -> bool:
        return self._bytes.total() + count <= self._most and self._bytes[address] + count <= self._each


class Crowd:
    """Delays refusals (429): the first is sent immediately, and further ones at a limited rate.

    Clients that ignore Retry-After would otherwise send the request again immediately, and refusing it again and again
    would slow down the answers to other clients.
    """

    def __init__(self) -> None:
        self.size = 0  # refusals on hold

    @property
    def delay(self) -> float:
        """The number of seconds by which to delay the next refusal."""
        return min(self.size / REFUSALS, LONGEST_HOLD)

    async def hold(self) -> None:
        delay = self.delay
        self.size += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self.size -= 1
