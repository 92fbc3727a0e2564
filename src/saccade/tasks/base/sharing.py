"""Share the batches of an evaluation among several processes, and keep their results in a folder.

Each process computes some of the batches and receives the results of all. The batches are the same as with one process,
so the results are the same bit for bit. With a folder, an evaluation that was stopped computes only the results that
the folder lacks.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from saccade.decoding import Hypothesis
from saccade.storage import seal, unseal, write_file

__all__ = ["for_each", "sharing"]

Part = TypeVar("Part")
Result = TypeVar("Result")
#: The results of many parts are kept in at least this many files.
FILES = 64


class Sharer(Protocol):
    """The processes of an evaluation, as seen by one of them."""

    rank: int
    count: int

    def gather(self, mine: list[Any]) -> list[list[Any]]:
        """Send the list of this process to all others, and return the lists of all processes, ordered by rank."""

    def show_life(self) -> None:
        """Tell processes that wait for this one that it is still working."""


class _Sharing:
    """One evaluation: who shares it, and the folder for its results."""

    def __init__(self, sharer: Sharer, folder: Path | None) -> None:
        self.sharer = sharer
        self.folder = folder
        self._calls = 0  # an evaluation may compute several things, one after the other

    def results(self, parts: Sequence[Part], compute: Callable[[Part], Result]) -> Iterator[Result]:
        self._calls += 1
        size = 1 if self.folder is None else max(1, len(parts) // FILES)
        chunks = [parts[start : start + size] for start in range(0, len(parts), size)]
        rank, count = self.sharer.rank, self.sharer.count
        mine = [self._chunk(number, chunks[number], compute) for number in range(rank, len(chunks), count)]
        every = self.sharer.gather(mine)
        for number in range(len(chunks)):
            yield from every[number % count][number // count]

    def _chunk(self, number: int, chunk: Sequence[Part], compute: Callable[[Part], Result]) -> list[Result]:
        """Return the results of some parts: read them if they are saved and undamaged, otherwise compute and save
        them."""
        file = None if self.folder is None else self.folder / f"{self._calls:03d}-{number:06d}.json"
        if file is not None and file.exists():
            record = unseal(file.read_text(encoding="utf-8", errors="replace"), ())
            if record is not None:
                return [_from_json(one) for one in record["results"]]
        found = []
        for part in chunk:
            found.append(compute(part))
            self.sharer.show_life()
        if file is not None:
            write_file(file, seal({"results": [_to_json(one) for one in found]}).encode())
        return found


_sharing: ContextVar[_Sharing | None] = ContextVar("sharing", default=None)


@contextmanager
def sharing(sharer: Sharer, folder: Path | None = None) -> Iterator[None]:
    """Within this context, ``for_each`` shares its work with other processes, and keeps its results in ``folder``.

    All processes must evaluate the same examples. Without a folder, results are not kept.
    """
    token = _sharing.set(_Sharing(sharer, folder) if sharer.count > 1 or folder is not None else None)
    try:
        yield
    finally:
        _sharing.reset(token)


def for_each(parts: Sequence[Part], compute: Callable[[Part], Result]) -> Iterator[Result]:
    """Yield ``compute(part)`` for each part, in order; within ``sharing``, several processes share the work.

    Results are numbers, tensors, ``Hypothesis`` objects, or tuples or lists of them.
    """
    active = _sharing.get()
    yield from map(compute, parts) if active is None else active.results(parts, compute)


def _to_json(value: Any) -> Any:
    """Return a result as JSON without losing precision."""
    if isinstance(value, Tensor):
        array = value.numpy()
        data = base64.b64encode(array.tobytes()).decode()
        return {"tensor": data, "type": str(array.dtype), "shape": list(array.shape)}
    if isinstance(value, Hypothesis):
        return value._asdict()
    if isinstance(value, tuple):
        return {"tuple": [_to_json(one) for one in value]}
    return [_to_json(one) for one in value] if isinstance(value, list) else value


def _from_json(value: Any) -> Any:
    match value:
        case {"tensor": data, "type": kind, "shape": shape}:
            return torch.from_numpy(np.frombuffer(base64.b64decode(data), kind).reshape(shape).copy())
        case {"tuple": values}:
            return tuple(_from_json(one) for one in values)
        case dict():
            return Hypothesis(**value)
        case list():
            return [_from_json(one) for one in value]
    return value
