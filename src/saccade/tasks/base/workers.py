"""Run beam search in several processes at once, each with its share of the texts, because one process would leave
cores idle.

Each worker opens the model folder itself and uses its share of the threads. Workers are spawned, so Python requires
that a script starts them under ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

import torch

from saccade.decoding import Hypothesis
from saccade.errors import OptionError, WorkerError
from saccade.models import lower_precision
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.task import Bundle

__all__ = ["BATCH_TOKENS", "Workers"]

#: The number of source tokens in one search, padding included.
BATCH_TOKENS = 4096
SearchPiece = tuple[list[list[int]], SearchOptions]


class Workers:
    """Processes that each have a copy of the model. They start at the first search and end when ``close`` is called.

    A separate pipe connects each of them to this process. Whenever a worker ends, its pipe is closed, so this process
    always notices. (An executor of Python 3.11 can wait forever for a process that it starts while another one is
    killed.)
    """

    def __init__(self, path: Path, count: int, precision: str, read: Callable[[Path], Bundle]) -> None:
        if not 1 <= count <= 256:
            raise OptionError(f"workers must be a number from 1 to 256, not {count}.")
        self._arguments = path, count, precision, read
        self._processes: dict[Connection, BaseProcess] = {}
        self._lock = threading.Lock()  # a worker answers one search at a time

    def search(self, pieces: Iterable[SearchPiece]) -> Iterator[list[list[Hypothesis]]]:
        """Yield the hypotheses for each of ``pieces`` (some texts as token ids, and the search options), in order."""
        left, found = list(enumerate(pieces))[::-1], {}
        busy: dict[Connection, int] = {}  # what each worker computes now
        with self._lock:
            try:
                idle, count = self._start(), len(left)
                for number in range(count):
                    while number not in found:
                        while idle and left:
                            worker = idle.pop()
                            busy[worker], piece = left.pop()
                            worker.send(piece)
                        for worker in cast(list[Connection], wait(list(busy))):
                            result = worker.recv()
                            if isinstance(result, str):
                                raise WorkerError(result)
                            found[busy.pop(worker)] = result
                            idle.append(worker)
                    yield found.pop(number)
            except (EOFError, OSError):
                raise WorkerError(
                    "A worker process ended before it finished (it was killed, or ran out of memory)."
                ) from None
            finally:
                if busy:  # nobody waits for their answers now
                    self.close()

    def _start(self) -> list[Connection]:
        """Start the processes unless they run, and return this end of each pipe."""
        path, count, precision, read = self._arguments
        # Spawned, not forked: forking a process in which torch already has threads can hang.
        context = multiprocessing.get_context("spawn")
        while len(self._processes) < count:
            here, there = context.Pipe()
            arguments = there, path, precision, max(1, torch.get_num_threads() // count), read
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            there.close()  # so that the pipe ends with the process
            self._processes[here] = process
        return list(self._processes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the workers. Processes cannot be pickled, but a copy can start its own."""
        return Workers, self._arguments

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        for connection, process in self._processes.items():
            process.join()
            connection.close()
        self._processes.clear()


def _work(connection: Connection, path: Path, precision: str, threads: int, read: Callable[[Path], Bundle]) -> None:
    """Answer one piece of work after the other, until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the process that started this one, which ends it
    torch.set_num_threads(threads)
    try:
        bundle = read(path)
        model, target = lower_precision(bundle.model, precision), bundle.task.state.vocabularies()["target"]
        while True:
            sources, options = connection.recv()
            with torch.inference_mode():
                connection.send(search(model, sources, options, BATCH_TOKENS, lambda: None, target))
    except (EOFError, OSError):
        return
    except Exception as error:
        connection.send(f"A worker process failed ({type(error).__name__}: {error}).")
