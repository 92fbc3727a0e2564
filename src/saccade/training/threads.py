"""How many threads of the processor compute an update."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["at_most_threads", "thread_counts"]


def thread_counts() -> tuple[int, ...]:
    """The numbers of threads to choose from: powers of two, up to as many as torch may use here."""
    most = torch.get_num_threads()
    return (*(2**i for i in range((most - 1).bit_length())), most)


@contextmanager
def at_most_threads(count: int | None) -> Iterator[None]:
    """Compute with this many threads, or with fewer if torch may not use as many; ``None`` changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else min(count, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
