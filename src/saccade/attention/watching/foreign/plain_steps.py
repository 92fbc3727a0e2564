"""Records the plain steps of generation cheaply: calls in which one query attends to all keys so far, without a mask.

There are many such steps, and in each of them the model passes all earlier keys and values of the layer again. At each
call, Saccade compares these bit for bit with its own copy, and adds the new key and value to the copy. Later, it adds
several steps of a layer to its trace as one call.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention.equation import After, Call
from saccade.attention.masks import causal
from saccade.attention.scores import ScaledDot

__all__ = ["PlainSteps", "is_plain"]


def is_plain(call: Call) -> bool:
    return call.shape[2] == 1 and not call.has_rules and not call.has_dropout and isinstance(call.score, ScaledDot)


class PlainSteps:
    """All keys and values of one attention layer so far, and the queries of its steps that are not in its trace yet.

    Each is a plain step of generation: one query attends to all keys so far, without a mask.
    """

    def __init__(self, last: Call, room: int, is_self: bool) -> None:
        """Begin after the call ``last``, with room for ``room`` new keys; ``is_self``: whether it is self-attention."""
        self._shape = last.shape
        self._is_self = is_self
        self._count = last.shape[3]
        self._key = _with_room(last.key, room)
        self._value = None if last.value is None else _with_room(last.value, room)
        self._steps: list[Call] = []

    def __len__(self) -> int:
        return len(self._steps)

    def read(self, call: Call) -> Call | None:
        """Return a call without the keys and values that are known already, if these equal the copy; otherwise None."""
        count, num_new = self._count, call.shape[3] - self._count
        if self._shape[:2] != call.shape[:2] or not (num_new == 1 or (num_new == 0 and not self._is_self)):
            return None
        if self._steps and not _is_alike(self._steps[0], call, num_new):
            return None
        pairs = [(self._key, call.key)]
        if self._value is not None:
            if call.value is None:
                return None
            pairs.append((self._value, call.value))
        for old, new in pairs:
            is_same_form = old.dtype == new.dtype and old.device == new.device and old.shape[1] == new.shape[1]
            if not is_same_form or not torch.equal(old[:, :, :count], new[:, :, :count]):
                return None
        query, key, *value = (part.detach().clone() for part in (call.query, *(new[:, :, count:] for _, new in pairs)))
        after = None if self._value is None else call.after
        return replace(call, query=query, key=key, value=value[0] if value else None, after=after)

    @torch.no_grad()
    def add(self, step: Call) -> None:
        """Add a call that ``read`` returned to the steps, and its key and value to the copy."""
        stop = self._count + step.key.shape[2]
        self._key[:, :, self._count : stop] = step.key
        if self._value is not None and step.value is not None:
            self._value[:, :, self._count : stop] = step.value
        self._count = stop
        self._steps.append(step)

    def whole(self, step: Call) -> Call:
        """Return, with all its keys and values, a call that ``read`` returned and that was not added to the steps."""
        with torch.inference_mode(False), torch.no_grad():
            key = torch.cat([self._key[:, :, : self._count], step.key], dim=2)
            value = self._value
            if value is not None and step.value is not None:
                value = torch.cat([value[:, :, : self._count], step.value], dim=2)
            return replace(step, query=step.query.clone(), key=key, value=value)

    def joined(self) -> Call:
        """Return all added steps as one call with a row for each step."""
        last, count = self._steps[-1], self._count
        with torch.inference_mode(False), torch.no_grad():
            query = torch.cat([step.query for step in self._steps], dim=2)
            key = self._key[:, :, :count].clone()
            value = None if self._value is None else self._value[:, :, :count].clone()
        # All steps have the same W_O, but each has its own gradient, so the gradient is left out.
        after = None if last.after is None else After(last.after.projection, last.after.version)
        call = replace(last, query=query, key=key, value=value, after=after)
        return replace(call, mask=causal, first_row=count - len(self)) if last.key.shape[2] else call


def _is_alike(first: Call, call: Call, num_new: int) -> bool:
    """Return whether a step has the same form as the first step, so that both can be parts of one call."""
    scales = [getattr(one.score, "scale", None) for one in (first, call)]
    return scales[0] == scales[1] and first.query.dtype == call.query.dtype and first.key.shape[2] == num_new


def _with_room(tensor: Float[Tensor, "B G K D"], room: int) -> Float[Tensor, "B G K+room D"]:
    with torch.inference_mode(False), torch.no_grad():
        return torch.cat([tensor, tensor.new_empty(*tensor.shape[:2], room, tensor.shape[3])], dim=2)
