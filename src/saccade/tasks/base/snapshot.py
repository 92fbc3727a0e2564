"""Compute the attention of an answer later, with the edits and weights that the model had when it answered."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, Generic, NamedTuple, NoReturn, ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor, nn

from saccade.attention.scores import Score
from saccade.attention.watching.interventions import active_edits, under_edits
from saccade.attention.watching.watch import is_watched
from saccade.attention.weights import Weights
from saccade.errors import StaleTraceError

__all__ = ["Copied", "Later", "Snapshot", "only_checks"]

#: The types of attributes, besides tensors and modules, that decide how a module computes.
HELD = str, float, FunctionType, Score, Weights
#: The attribute of hooks that ``only_checks`` marks.
_ONLY_CHECKS = "saccade_only_checks"

Given = ParamSpec("Given")
Result = TypeVar("Result")
Hook = TypeVar("Hook", bound=Callable[..., Any])


class _Holder(Protocol):
    model: nn.Module
    is_exclusive: bool


class _Behaviour(NamedTuple):
    """What decides how a module computes, besides its weights."""

    training: bool
    hooks: tuple[int, ...]
    pre_hooks: tuple[int, ...]
    held: dict[str, Any]  # its settings and functions

    @classmethod
    def of(cls, module: nn.Module) -> _Behaviour:
        held = {name: value for name, value in vars(module).items() if isinstance(value, HELD)}
        before = tuple(id for id, hook in module._forward_pre_hooks.items() if not getattr(hook, _ONLY_CHECKS, False))
        return cls(module.training, tuple(module._forward_hooks), before, held)


class _Fingerprint(NamedTuple):
    """A value that changes whenever a weight is changed, replaced or moved, or a module computes differently.

    A tensor's version counts in-place changes. It does not count changes through ``.data``, but they change the
    checksums. These read every weight, which takes about as long as a pass through the network, so they are None where
    no other code can change the model.
    """

    behaviour: list[_Behaviour]  # of each module
    versions: list[tuple[Any, ...]]  # of each weight
    checksums: dict[str, int] | None  # of each weight

    @classmethod
    def of(cls, model: nn.Module, is_exclusive: bool) -> _Fingerprint:
        versions = [
            (name, tensor.dtype, tensor.data_ptr(), None if tensor.is_inference() else tensor._version)
            for name, tensor in _tensors(model)
        ]
        return cls(_behaviour(model), versions, None if is_exclusive else _checksums(model))


class Snapshot:
    """The state of a predictor's model when it answers: active edits, precision, and a fingerprint of the weights."""

    def __init__(self, predictor: _Holder) -> None:
        self._predictor = predictor
        self._edits = active_edits()
        self._autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        self._model = _Fingerprint.of(predictor.model, predictor.is_exclusive)

    @property
    def needs_network(self) -> bool:
        """Whether only the network itself can compute an answer now, because an engine cannot be edited, be watched,
        run hooks, be in training mode, or compute under autocast."""
        changed = any(one.training or one.hooks or one.pre_hooks for one in self._model.behaviour)
        return bool(self._edits) or is_watched() or self._autocast[0] or changed

    def later(self, compute: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Later[Result]:
        """Return a function that runs ``compute`` under the edits of this snapshot, and raises an error if the weights
        have changed since."""
        return Later(self, partial(compute, *arguments, **named))

    def run(self, compute: Callable[[], Result]) -> Result:
        if _Fingerprint.of(self._predictor.model, self._predictor.is_exclusive) != self._model:
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


class Copied:
    """What an engine copied from a network, so that it is noticed if the network has changed since."""

    def __init__(self, network: nn.Module, engine: str) -> None:
        self._engine = engine
        self._checksums = _checksums(network)
        self._held = [one.held for one in _behaviour(network)]

    def check(self, now: Snapshot) -> None:
        """Raise an error if the network is not the one that the engine copied."""
        state = now._model
        if state.checksums not in (None, self._checksums) or [one.held for one in state.behaviour] != self._held:
            raise StaleTraceError(f"The model has changed since {self._engine} copied it; open the model again.")


def only_checks(hook: Hook) -> Hook:
    """Mark a hook that runs before a module and never changes its inputs, so that an engine may do without it."""
    setattr(hook, _ONLY_CHECKS, True)
    return hook


def _checksums(model: nn.Module) -> dict[str, int]:
    return {name: _checksum(tensor) for name, tensor in _tensors(model)}


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _behaviour(model: nn.Module) -> list[_Behaviour]:
    return [_Behaviour.of(module) for module in model.modules()]


def _checksum(tensor: Tensor) -> int:
    """Return a checksum of the bits of a tensor. It is much faster than sums in float64, and sees changes of order."""
    bits = tensor.detach().contiguous().view(-1).view(torch.uint8)
    return zlib.crc32(bits.cpu().numpy().data)
