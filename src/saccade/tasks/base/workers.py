"""Several processes that search at once: small products leave cores idle, so texts are shared out instead.

Each worker opens the model folder itself and computes with its share of the threads. They are started afresh, so a
script that asks for workers does so under ``if __name__ == "__main__":``, as Python wants of every such script.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch
from torch import nn

from saccade.decoding import Hypothesis
from saccade.errors import OptionError, WorkerError
from saccade.models import lower_precision
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.task import Bundle

__all__ = ["BATCH_TOKENS", "Workers"]

#: Padded source tokens that are searched at once.
BATCH_TOKENS = 4096
#: The model of a worker's process.
_model: nn.Module


class Workers:
    """Processes with a model each; they start with the first search and end with ``close``."""

    def __init__(self, path: Path, count: int, precision: str, read: Callable[[Path], Bundle]) -> None:
        if not 1 <= count <= 256:
            raise OptionError(f"workers is a number from 1 to 256; not {count}.")
        # Spawned, not forked: a fork of a process whose torch already has threads can hang.
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_open,
            initargs=(path, precision, max(1, torch.get_num_threads() // count), read),
        )

    def search(self, pieces: Iterable[tuple[list[list[int]], SearchOptions]]) -> Iterator[list[list[Hypothesis]]]:
        """What is found for each piece, in their order."""
        try:
            yield from self._pool.map(_search, *zip(*pieces, strict=True))
        except BrokenProcessPool:
            raise WorkerError(
                "A worker process ended before its answers were there (killed, or out of memory)."
            ) from None

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _open(path: Path, precision: str, threads: int, read: Callable[[Path], Bundle]) -> None:
    global _model
    torch.set_num_threads(threads)
    _model = lower_precision(read(path).model, precision)


@torch.inference_mode()
def _search(sources: list[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
    return search(_model, sources, options, BATCH_TOKENS, lambda: None)
