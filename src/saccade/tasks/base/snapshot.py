"""Compute the attention of an answer later, with the edits and weights that the model had when it answered."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor, nn

from saccade.attention.scores import Score
from saccade.attention.watching.interventions import active_edits, under_edits
from saccade.attention.weights import Weights
from saccade.errors import StaleTraceError

__all__ = ["Later", "Snapshot", "check_copied", "checksums"]

#: The types of attributes, besides tensors and modules, that decide how a module computes.
HELD = str, float, FunctionType, Score, Weights

Given = ParamSpec("Given")
Result = TypeVar("Result")


class _Holder(Protocol):
    model: nn.Module
    is_exclusive: bool


class Snapshot:
    """The state of a predictor's model when it answers: active edits, precision, and a fingerprint of the weights."""

    def __init__(self, predictor: _Holder) -> None:
        self._predictor = predictor
        self._edits = active_edits()
        self._autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        self._weights = _fingerprint(predictor.model, predictor.is_exclusive)

    @property
    def checksums(self) -> dict[str, int] | None:
        """The checksum of every weight; None if no other code can change the weights."""
        found: dict[str, int] | None = self._weights[-1]
        return found

    def later(self, compute: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Later[Result]:
        """Return a function that runs ``compute`` under the edits of this snapshot, and raises an error if the weights
        have changed since."""
        return Later(self, partial(compute, *arguments, **named))

    def run(self, compute: Callable[[], Result]) -> Result:
        if _fingerprint(self._predictor.model, self._predictor.is_exclusive) != self._weights:
            raise StaleTraceError(
                "The model has changed since it gave this answer, so the answer's attention can no longer be computed; "
                "ask the model again."
            )
        enabled, dtype = self._autocast
        with torch.autocast("cpu", dtype, enabled), under_edits(self._edits):
            return compute()


class Later(Generic[Result]):
    """A computation that an answer does only when needed, such as its attention. It needs the model, so it is not
    pickled: ``LeftBehind`` takes its place."""

    __slots__ = ("_compute", "_snapshot")

    def __init__(self, snapshot: Snapshot, compute: Callable[[], Result]) -> None:
        self._snapshot, self._compute = snapshot, compute

    def __call__(self) -> Result:
        return self._snapshot.run(self._compute)

    def __deepcopy__(self, memo: dict[int, Any]) -> Later[Result]:
        return self  # in the same process, the model is still there

    def __reduce__(self) -> tuple[type[LeftBehind], tuple[()]]:
        return LeftBehind, ()


class LeftBehind:
    """Takes the place of ``Later`` in an answer that was pickled; calling it raises an error."""

    def __call__(self) -> NoReturn:
        raise StaleTraceError(
            "This answer was pickled without its model, so its attention cannot be computed; before you pickle an "
            "answer, save what you need of its view."
        )


def _fingerprint(model: nn.Module, is_exclusive: bool) -> list[Any]:
    """Return a value that changes whenever a weight is changed, replaced or moved, or a module computes differently.

    A tensor's version counts in-place changes. It does not count changes through ``.data``, but they change the
    checksums. These read every weight, which takes about as long as a pass through the network, so they are left out
    where no other code can change the model.
    """
    found: list[Any] = [_behaviour(module) for module in model.modules()]
    for name, tensor in _tensors(model):
        version = None if tensor.is_inference() else tensor._version
        found.append((name, tensor.dtype, tensor.data_ptr(), version))
    return [*found, None if is_exclusive else checksums(model)]


def checksums(model: nn.Module) -> dict[str, int]:
    """Return a checksum of every weight, by name."""
    return {name: _checksum(tensor) for name, tensor in _tensors(model)}


def check_copied(now: Snapshot, copied: dict[str, int], engine: str) -> None:
    """Raise an error if the weights have changed since an engine copied those with these checksums."""
    if now.checksums not in (None, copied):
        raise StaleTraceError(f"The weights have changed since {engine} copied them; open the model again.")


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _behaviour(module: nn.Module) -> tuple[Any, ...]:
    """Return whether a module is in training mode, its hooks, and the settings and functions that it holds."""
    held = {name: value for name, value in vars(module).items() if isinstance(value, HELD)}
    return module.training, tuple(module._forward_hooks), tuple(module._forward_pre_hooks), held


def _checksum(tensor: Tensor) -> int:
    """Return a checksum of the bits of a tensor. It is much faster than sums in float64, and sees changes of order."""
    bits = tensor.detach().contiguous().view(-1).view(torch.uint8)
    return zlib.crc32(bits.cpu().numpy().data)
