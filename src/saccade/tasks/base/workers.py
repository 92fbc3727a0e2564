"""Search in several processes at once, each with its share of the texts, because one process would leave cores idle.

Each worker opens the model folder itself and uses its share of the threads. Workers are spawned, so Python requires
that a script starts them under ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.decoding import Hypothesis
from saccade.errors import OptionError, WorkerError
from saccade.models import lower_precision
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.task import Bundle
from saccade.text import Tokenizer

__all__ = ["BATCH_TOKENS", "Workers"]

#: The number of source tokens in one search, padding included.
BATCH_TOKENS = 4096
#: The model in a worker process.
_model: nn.Module
_target: Tokenizer


class Workers:
    """Processes that each have a copy of the model. They start at the first search and end with ``close``."""

    def __init__(self, path: Path, count: int, precision: str, read: Callable[[Path], Bundle]) -> None:
        if not 1 <= count <= 256:
            raise OptionError(f"workers must be a number from 1 to 256, not {count}.")
        # Spawned, not forked: forking a process in which torch already has threads can hang.
        self._arguments = path, count, precision, read
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_open,
            initargs=(path, precision, max(1, torch.get_num_threads() // count), read),
        )

    def search(self, pieces: Iterable[tuple[list[list[int]], SearchOptions]]) -> Iterator[list[list[Hypothesis]]]:
        """Yield the outputs for each piece of work, in order."""
        try:
            yield from self._pool.map(_search, *zip(*pieces, strict=True))
        except BrokenProcessPool:
            raise WorkerError(
                "A worker process ended before it finished (it was killed, or ran out of memory)."
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the workers. Processes cannot be pickled, but a copy can start its own."""
        return Workers, self._arguments

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _open(path: Path, precision: str, threads: int, read: Callable[[Path], Bundle]) -> None:
    global _model, _target
    torch.set_num_threads(threads)
    bundle = read(path)
    _model, _target = lower_precision(bundle.model, precision), bundle.task.state.vocabularies()["target"]


@torch.inference_mode()
def _search(sources: list[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
    return search(_model, sources, options, BATCH_TOKENS, lambda: None, _target)
