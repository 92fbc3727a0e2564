"""Compute the attention of an answer later, with the edits and weights that the model had when it answered."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar

from torch import nn

from saccade.attention.watching.interventions import active_edits, under_edits
from saccade.errors import StaleTraceError

__all__ = ["Later", "Snapshot"]

Given = ParamSpec("Given")
Result = TypeVar("Result")


class _Holder(Protocol):
    model: nn.Module
    is_exclusive: bool


class Snapshot:
    """The state of a predictor's model at the moment it answers: the active edits, and a fingerprint of its weights."""

    def __init__(self, predictor: _Holder) -> None:
        self._predictor = predictor
        self._edits = active_edits()
        self._weights = _fingerprint(predictor.model, predictor.is_exclusive)

    def later(self, compute: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Later[Result]:
        """Return a function that runs ``compute`` under the edits of this snapshot, and raises an error if the weights
        have changed since."""
        return Later(self, partial(compute, *arguments, **named))

    def run(self, compute: Callable[[], Result]) -> Result:
        if _fingerprint(self._predictor.model, self._predictor.is_exclusive) != self._weights:
            raise StaleTraceError(
                "The model has changed since it gave this answer, so its attention can no longer be computed; ask it "
                "again."
            )
        with under_edits(self._edits):
            return compute()


class Later(Generic[Result]):
    """A computation that an answer leaves for later. It cannot be pickled, because it needs the model."""

    def __init__(self, snapshot: Snapshot, compute: Callable[[], Result]) -> None:
        self._snapshot, self._compute = snapshot, compute

    def __call__(self) -> Result:
        return self._snapshot.run(self._compute)

    def __deepcopy__(self, memo: dict[int, Any]) -> Later[Result]:
        return self  # in the same process, the model is still there

    def __reduce__(self) -> tuple[type[LeftBehind], tuple[()]]:
        return LeftBehind, ()


class LeftBehind:
    """Replaces ``Later`` in an answer that was pickled."""

    def __call__(self) -> NoReturn:
        raise StaleTraceError(
            "This answer was pickled without its model, so its attention cannot be computed; save its view, or what "
            "you need of it, before you pickle an answer."
        )


def _fingerprint(model: nn.Module, is_exclusive: bool) -> list[Any]:
    """Return a value that changes whenever a weight is changed, replaced or moved.

    A tensor's version counts in-place changes. It does not count changes through ``.data``, but they change the sum.
    The sum reads every weight, which takes as long as a third of a pass through the network, so it is left out where no
    other code can change the model.
    """
    found: list[Any] = [model.training]
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        version = None if tensor.is_inference() else tensor._version
        total = None if is_exclusive else str(tensor.detach().sum().item())
        found.append((name, tensor.dtype, tensor.data_ptr(), version, total))
    return found
