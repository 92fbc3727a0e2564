"""What forward passes leave in a cache for the next one.

Beam search keeps the best texts after each step, and chooses their keys from the cache. Then a sequence of the batch is
one of several candidates, not the text that comes out in the end, even if the choice happened to change nothing. The
keys cannot show that, but the tensors in the cache can: they are not the ones that the last forward pass left there.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Caches"]

#: Things that hold no tensors.
PLAIN = (str, bytes, bool, int, float, type(None), torch.dtype, torch.device)


class _Left(NamedTuple):
    """A tensor, as a forward pass was given it or left it behind."""

    tensor: weakref.ref[Tensor]
    shape: torch.Size
    version: int | None

    def is_same(self, tensor: Tensor) -> bool:
        return self.tensor() is tensor and self.version == _version(tensor)


class Caches:
    """What the last forward pass of each module was given, and what it left in that or returned."""

    def __init__(self) -> None:
        self._given: dict[int, dict[int, _Left]] = {}
        self._left: dict[int, dict[int, _Left]] = {}

    def begin(self, module: nn.Module, values: tuple[object, ...]) -> tuple[bool, set[int]]:
        """Begin a forward pass; return whether its cache was chosen anew, and what the last pass made and left in it.

        The cache was chosen anew if there is a tensor in the place of one of its shape that the last pass has left.
        """
        with torch._C.DisableTorchFunction():
            given, left = self._given.get(id(module), {}), self._left.get(id(module), {})
            inside = list(_held(tuple(value for value in values if not isinstance(value, Tensor))))
            direct = [part for part in values if isinstance(part, Tensor) and part.ndim > 3]
            cached = [*inside, *(part for part in direct if part.shape[-2] > 1)]  # not the vectors of one step
            shapes = {one.shape for one in left.values()}
            # Of one sequence there is nothing to choose.
            is_chosen = any(len(part) > 1 and part.shape in shapes and not _is_known(part, left) for part in cached)
            made = {id(part) for part in inside if _is_known(part, left) and not _is_known(part, given)}
            self._given[id(module)] = _known(values)
        return is_chosen, made

    def end(self, module: nn.Module, values: tuple[object, ...]) -> None:
        """End a forward pass that leaves behind what it was given, and what it returns."""
        with torch._C.DisableTorchFunction():
            self._left[id(module)] = _known(values)


def _known(values: object) -> dict[int, _Left]:
    return {id(part): _Left(weakref.ref(part), part.shape, _version(part)) for part in _held(values)}


def _is_known(tensor: Tensor, among: dict[int, _Left]) -> bool:
    known = among.get(id(tensor))
    return known is not None and known.is_same(tensor)


def _held(value: object, known: set[int] | None = None) -> Iterator[Tensor]:
    """Yield the tensors within a value that may be in a cache."""
    known = set() if known is None else known
    known.add(id(value))
    if isinstance(value, Tensor):
        if value.ndim > 2 and not value.is_nested and value.is_floating_point():
            yield value
        return
    parts: Iterable[object] = ()
    if isinstance(value, (tuple, list)):
        parts = value
    elif isinstance(value, Mapping):
        parts = value.values()
    elif hasattr(value, "__dict__") and not isinstance(value, (nn.Module, type, FunctionType, ModuleType)):
        parts = vars(value).values()
    for part in parts:
        if not isinstance(part, PLAIN) and id(part) not in known:
            yield from _held(part, known)


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version
