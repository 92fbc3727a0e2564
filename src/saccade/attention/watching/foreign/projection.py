"""Which W_O a module applies to the outputs of its heads, and the gradient that comes back to them.

Torch's attention function does not know W_O: the module applies it later, if it has one. So the next matrix products
are looked at. The one whose input is the heads' outputs side by side, bit for bit, is W_O; nothing else counts as it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention.equation import After, Call

__all__ = ["Followed", "after_module", "find_projection", "follow"]


class Followed(NamedTuple):
    """A call whose output is followed to its W_O."""

    after: After
    output: weakref.ref[Tensor]
    shape: tuple[int, int, int, int]  # (batch, heads, queries, width)


def follow(call: Call, output: Tensor) -> Followed:
    """Begin to follow the output of ``scaled_dot_product_attention``."""
    assert call.value is not None
    shape = (*call.shape[:3], call.value.shape[3])
    after = After()
    if output.requires_grad:

        def keep_gradient(gradient: Tensor) -> None:
            after.gradient = gradient.detach().reshape(shape)

        output.register_hook(keep_gradient)  # type: ignore[no-untyped-call]
    return Followed(after, weakref.ref(output), shape)


def find_projection(
    followed: Followed, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> bool:
    """Return whether this function applies W_O to the followed output; if it does, W_O is recorded."""
    given = [*arguments, *named.values()]
    if function is F.linear and len(given) >= 2:
        inputs, weight = given[0], given[1].mT
    elif function is torch.addmm and len(arguments) == 3:  # as GPT-2's Conv1D writes it
        _, inputs, weight = arguments
    elif function in (torch.matmul, Tensor.matmul, Tensor.__matmul__) and len(given) == 2:
        inputs, weight = given
    else:
        return False
    output = followed.output()
    batch, heads, num_rows, width = followed.shape
    is_candidate = (
        output is not None
        and weight.ndim == 2
        and weight.shape[0] == inputs.shape[-1] == heads * width
        and inputs.numel() == batch * heads * num_rows * width
    )
    if output is None or not is_candidate:
        return False
    beside = output.detach().reshape(followed.shape).transpose(1, 2).reshape(batch, num_rows, heads * width)
    if not torch.equal(beside, inputs.detach().reshape(beside.shape)):
        return False
    followed.after.set_projection(weight)
    return True


def after_module(module: nn.MultiheadAttention, call: Call, output: Float[Tensor, "*NB E"] | None) -> After:
    """Record W_O of torch's module, and derive the gradient of its heads from that of its output."""
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
