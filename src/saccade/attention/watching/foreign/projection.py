"""Finds the output matrix W_O that a module applies to the outputs of its heads, and the gradient of these outputs.

Torch's attention function does not know W_O: the module applies it later, if it has one. So every function that
receives the heads' outputs is examined. If exactly one function computes with them, and it multiplies the concatenated
outputs (compared bit for bit) by a matrix, this matrix is W_O; otherwise there is none.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention.equation import After, Call
from saccade.attention.watching.foreign.folding import Fold

__all__ = ["Followed", "after_module", "follow"]


#: Functions that keep all numbers, and only change the shape.
RESHAPES = {torch.reshape, Tensor.reshape, torch.flatten, Tensor.flatten}


class Followed:
    """Follows the output of an attention call through later functions, to find the matrix W_O that it is multiplied
    by."""

    def __init__(self, after: After, output: Tensor, unfold: Callable[[Tensor], Tensor]) -> None:
        self._after = after
        self._unfold = unfold  # returns the output as (batch, heads, queries, width)
        self._version = None if output.is_inference() else output._version
        self._output = output
        self._copies = {id(output): weakref.ref(output)}  # tensors that hold the same numbers
        self._is_used = False

    def see(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        """Note whether a function that has just run multiplied the output of the call by W_O, or used it otherwise."""
        used = next((part for part in (*arguments, *named.values()) if self._is_copy(part)), None)
        if used is None or not _tensors(result):
            return
        if isinstance(result, Tensor) and self._passes_on(function, used, result):
            self._copies[id(result)] = weakref.ref(result)
            return
        weight = None if self._is_used else _weight(function, arguments, named, used)
        is_projection = weight is not None and self._is_side_by_side(used, weight)
        if is_projection and weight is not None:
            self._after.set_projection(weight)
        else:  # it is used in another way, such as with a gate, so there is no W_O
            self._after.projection = None
        self._is_used = True

    def _is_copy(self, value: object) -> bool:
        known = self._copies.get(id(value))
        return known is not None and known() is value

    def _passes_on(self, function: Callable[..., Any], used: Tensor, result: Tensor) -> bool:
        """Return whether the result of a function holds the same numbers as the output of the call."""
        is_changed = self._version is not None and self._output._version != self._version
        name = getattr(function, "__name__", "")
        if is_changed or (name.endswith("_") and not name.endswith("__")) or result.numel() != used.numel():
            return False
        if function in RESHAPES or result.untyped_storage().data_ptr() == used.untyped_storage().data_ptr():
            return True
        return result.shape == used.shape and torch.equal(result.detach(), used.detach())

    def _is_side_by_side(self, inputs: Tensor, weight: Tensor) -> bool:
        """Return whether the input of a product is the outputs of all heads, concatenated in their order."""
        outputs = self._unfold(self._output.detach())
        batch, heads, num_rows, width = outputs.shape
        if weight.ndim != 2 or not weight.shape[0] == inputs.shape[-1] == heads * width:
            return False
        beside = outputs.transpose(1, 2).reshape(batch, num_rows, heads * width)
        return torch.equal(beside, inputs.detach().reshape(beside.shape))


def follow(call: Call, output: Tensor, fold: Fold | None) -> tuple[After, Followed]:
    """Start to follow the output of ``scaled_dot_product_attention``. The returned ``After`` is filled in with W_O and
    the gradient while the model runs."""
    assert call.value is not None
    shape = (*call.shape[:3], call.value.shape[3])
    after = After()

    def unfold(tensor: Tensor) -> Tensor:
        return tensor.reshape(shape) if fold is None else fold.unfold(tensor)

    if output.requires_grad:

        def keep_gradient(gradient: Tensor) -> None:
            after.gradient = unfold(gradient.detach())

        output.register_hook(keep_gradient)  # type: ignore[no-untyped-call]
    return after, Followed(after, output, unfold)


def _weight(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], used: Tensor
) -> Tensor | None:
    """Return the matrix that a function multiplies the tensor ``used`` by; None if it does something else."""
    given = [*arguments, *named.values()]
    if function is F.linear and len(given) >= 2:
        inputs, weight = given[0], given[1].mT
    elif function is torch.addmm and len(arguments) == 3:  # as GPT-2's Conv1D writes it
        _, inputs, weight = arguments
    elif function in (torch.matmul, Tensor.matmul, Tensor.__matmul__) and len(given) == 2:
        inputs, weight = given
    else:
        return None
    return weight if inputs is used else None


def _tensors(result: Any) -> bool:
    return isinstance(result, Tensor) or (
        isinstance(result, (tuple, list)) and any(isinstance(part, Tensor) for part in result)
    )


def after_module(module: nn.MultiheadAttention, call: Call, output: Float[Tensor, "*NB E"] | None) -> After:
    """Return the W_O of torch's module, in an ``After`` that a backward pass fills with the gradient of its heads'
    outputs."""
    after = After()
    after.set_projection(module.out_proj.weight.mT)
    if output is not None and output.requires_grad:
        batch, heads, num_rows, _ = call.shape
        weight = module.out_proj.weight.detach()

        def keep_gradient(gradient: Tensor) -> None:
            of_heads = (gradient.detach() @ weight).reshape(*gradient.shape[:-1], heads, -1)
            if of_heads.ndim == 3:  # without a batch
                of_heads = of_heads.unsqueeze(1)
            elif module.batch_first:
                of_heads = of_heads.transpose(0, 1)
            after.gradient = of_heads.permute(1, 2, 0, 3).reshape(batch, heads, num_rows, -1)

        output.register_hook(keep_gradient)  # type: ignore[no-untyped-call]
    return after
