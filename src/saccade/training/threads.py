"""Choose how many processor threads compute an update."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["at_most_threads", "thread_counts"]


def thread_counts() -> tuple[int, ...]:
    """The numbers of threads to choose from: powers of two, and the largest number that torch may use here."""
    most = torch.get_num_threads()
    return (*(2**i for i in range((most - 1).bit_length())), most)


@contextmanager
def at_most_threads(count: int | None) -> Iterator[None]:
    """A context in which torch computes with at most ``count`` threads; ``None`` changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else min(count, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
