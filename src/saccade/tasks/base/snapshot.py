"""Compute attention later exactly as it was when the model answered: with the same edits and weights, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from torch import nn

from saccade.attention.watching.interventions import active_edits, under_edits
from saccade.errors import StaleTraceError

__all__ = ["Snapshot"]

Given = ParamSpec("Given")
Result = TypeVar("Result")


class _Holder(Protocol):
    model: nn.Module


class Snapshot:
    """The state of a predictor's model at the moment it answers: the active edits, and a fingerprint of its weights."""

    def __init__(self, predictor: _Holder) -> None:
        self._predictor = predictor
        self._edits = active_edits()
        self._weights = _fingerprint(predictor.model)

    def later(
        self, compute: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs
    ) -> Callable[[], Result]:
        """Return a function that runs ``compute`` under the edits of this snapshot, and raises an error if the weights
        have changed since."""

        def computed() -> Result:
            if _fingerprint(self._predictor.model) != self._weights:
                raise StaleTraceError(
                    "The model has changed since it gave this answer, so its attention can no longer be computed; ask "
                    "it again."
                )
            with under_edits(self._edits):
                return compute(*arguments, **named)

        return computed


def _fingerprint(model: nn.Module) -> list[Any]:
    """Return a value that changes whenever a weight is changed, replaced or moved.

    A tensor's version counts in-place changes. It does not count changes through ``.data``, but they change the sum.
    """
    found: list[Any] = [model.training]
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        version = None if tensor.is_inference() else tensor._version
        found.append((name, tensor.dtype, tensor.data_ptr(), version, str(tensor.detach().sum().item())))
    return found
