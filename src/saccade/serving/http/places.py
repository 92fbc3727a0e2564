"""How much the server holds at once, and how much of it for one address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from saccade.serving.http.refusals import Refused

__all__ = ["Places"]


class Places:
    """So many in all, so many for each address. Used from the event loop alone."""

    def __init__(self, most: int, each: int, refusal: str) -> None:
        self.most, self.each = most, each
        self._refusal = refusal
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, address: str, count: int = 1) -> Iterator[None]:
        """Take places until the block ends; where there are none left, refuse."""
        if self._taken.total() + count > self.most or self._taken[address] + count > self.each:
            raise Refused(429, f"{self._refusal}; try again in a moment.", retry_after=1)
        self._taken[address] += count
        try:
            yield
        finally:
            self._taken[address] -= count
            self._taken += Counter()  # forgets who has none
