"""Share the batches of an evaluation among several processes.

Each process computes some of the batches and receives the results of all. The batches are those of one process alone,
so the results are the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

__all__ = ["for_each", "sharing"]

Part = TypeVar("Part")
Result = TypeVar("Result")


class Sharer(Protocol):
    """The processes of an evaluation, as one of them sees them."""

    rank: int
    count: int

    def gather(self, mine: list[Any]) -> list[list[Any]]:
        """Return what each process gives, by rank."""


_sharer: ContextVar[Sharer | None] = ContextVar("sharer", default=None)


@contextmanager
def sharing(sharer: Sharer) -> Iterator[None]:
    """While this is active, ``for_each`` shares its work. All processes must then evaluate the same examples."""
    token = _sharer.set(sharer if sharer.count > 1 else None)
    try:
        yield
    finally:
        _sharer.reset(token)


def for_each(parts: Sequence[Part], compute: Callable[[Part], Result]) -> Iterator[Result]:
    """Yield the result for each part, in order."""
    sharer = _sharer.get()
    if sharer is None:
        yield from map(compute, parts)
        return
    every = sharer.gather([compute(part) for part in parts[sharer.rank :: sharer.count]])
    yield from (every[number % sharer.count][number // sharer.count] for number in range(len(parts)))
