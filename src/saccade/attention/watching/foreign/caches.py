"""Finds out whether the tensors of a cache were replaced between two forward passes, as beam search does.

After each step, beam search keeps the best texts and selects their keys from the cache. Each sequence of the batch is
then only one of several candidates, and need not become the final output, even if the selection happened to leave all
numbers as they were. The numbers cannot show that there was a selection, but the tensor objects can: they are not those
that the last forward pass left in the cache.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Caches"]

#: Types of values that contain no tensors.
PLAIN = (str, bytes, bool, int, float, type(None), torch.dtype, torch.device)


class _Left(NamedTuple):
    """A tensor as it was when a forward pass began or ended."""

    tensor: weakref.ref[Tensor]
    shape: torch.Size
    version: int | None

    def is_same(self, tensor: Tensor) -> bool:
        return self.tensor() is tensor and self.version == _version(tensor)


class Caches:
    """Remembers, for each module, the tensors in the arguments of its last forward pass when that pass began, and the
    tensors in its arguments and output when it ended."""

    def __init__(self) -> None:
        self._given: dict[int, dict[int, _Left]] = {}
        self._left: dict[int, dict[int, _Left]] = {}

    def begin(self, module: nn.Module, values: tuple[object, ...]) -> tuple[bool, set[int]]:
        """Begin a forward pass of a module with these arguments.

        Return whether its cache was replaced since the module's last pass, and the Python ids of the tensors that the
        last pass computed and stored in the cache. The cache counts as replaced if it holds a tensor that the last pass
        did not leave there, but that has the same shape as a tensor that it did leave.
        """
        with torch._C.DisableTorchFunction():
            given, left = self._given.get(id(module), {}), self._left.get(id(module), {})
            inside = list(_held(tuple(value for value in values if not isinstance(value, Tensor))))
            direct = [part for part in values if isinstance(part, Tensor) and part.ndim > 3]
            # An argument with one position is no cache, but the input of one step.
            cached = [*inside, *(part for part in direct if part.shape[-2] > 1)]
            shapes = {one.shape for one in left.values()}
            # In a batch of one sequence, there is nothing to choose from.
            is_chosen = any(len(part) > 1 and part.shape in shapes and not _is_known(part, left) for part in cached)
            made = {id(part) for part in inside if _is_known(part, left) and not _is_known(part, given)}
            self._given[id(module)] = _known(values)
        return is_chosen, made

    def end(self, module: nn.Module, values: tuple[object, ...]) -> None:
        """End a forward pass; ``values`` are its arguments and its output."""
        with torch._C.DisableTorchFunction():
            self._left[id(module)] = _known(values)


def _known(values: object) -> dict[int, _Left]:
    return {id(part): _Left(weakref.ref(part), part.shape, _version(part)) for part in _held(values)}


def _is_known(tensor: Tensor, among: dict[int, _Left]) -> bool:
    known = among.get(id(tensor))
    return known is not None and known.is_same(tensor)


def _held(value: object, known: set[int] | None = None) -> Iterator[Tensor]:
    """Yield the tensors inside a value that may belong to a cache: numbers with at least three dimensions."""
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
