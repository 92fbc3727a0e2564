"""Faster inference with matrix products in bf16.

The weights of linear layers are rounded to bf16 once. Embeddings, norms, attention and everything else keep their
precision. A model in lower precision cannot be trained.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.errors import UnknownNameError
from saccade.kernels.precision import check_narrow_products
from saccade.models.layers import TiedLinear

__all__ = ["Precision", "lower_precision"]

Precision = Literal["fp32", "bf16"]


def lower_precision(model: nn.Module, precision: str) -> nn.Module:
    """Replace the model's linear layers in place by layers that compute in this precision, and return the model."""
    if precision not in get_args(Precision):
        raise UnknownNameError("precision", precision, get_args(Precision))
    if precision == "fp32":
        return model
    if next(model.parameters()).device.type == "cpu":
        check_narrow_products()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear | TiedLinear):
                setattr(module, name, _Bf16Linear(child.weight.detach(), child.bias))
    return model


class _Bf16Linear(nn.Module):
    """``W x + b`` with W and x in bf16, summed in float32."""

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None) -> None:
        super().__init__()
        self.in_features = weight.shape[1]
        self.register_buffer("weight", weight.to(torch.bfloat16))
        self.bias = bias

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B E"]:
        product = (x.to(torch.bfloat16) @ self.weight.T).to(x.dtype)
        return product if self.bias is None else product + self.bias
