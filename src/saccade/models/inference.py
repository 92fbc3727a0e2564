"""A trained model with narrower matrix products, for answering faster: bf16, or int8 with a scale for each row.

    int8:  W[o] ≈ s[o] · q[o],  q whole numbers of -127..127,  s[o] = max |W[o]| / 127

and the same for what is multiplied with it, with one scale for all, found anew each time (so which texts are answered
together can change an answer in int8, as it cannot in the other precisions). The weights are rounded once;
embeddings, norms, attention and everything between the products stay as they were. Such a model is not trained.
"""

from __future__ import annotations

import warnings
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.errors import OptionError, UnknownNameError
from saccade.kernels.precision import check_narrow_products
from saccade.models.layers import TiedLinear

__all__ = ["Precision", "lower_precision"]

Precision = Literal["fp32", "bf16", "int8"]
ENGINE = "onednn"  # the fastest of torch's for products of this kind


def lower_precision(model: nn.Module, precision: str) -> nn.Module:
    """The model with the products of its linear layers in this precision; its layers are replaced in place."""
    if precision not in get_args(Precision):
        raise UnknownNameError("precision", precision, get_args(Precision))
    if precision == "fp32":
        return model
    device = next(model.parameters()).device.type
    if precision == "int8" and (device != "cpu" or ENGINE not in torch.backends.quantized.supported_engines):
        raise OptionError(f"int8 products need a CPU with torch's {ENGINE}; use fp32 or bf16 here.")
    if device == "cpu":
        check_narrow_products()
    narrow = _Int8Linear if precision == "int8" else _Bf16Linear
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear | TiedLinear):
                setattr(module, name, narrow(child.weight.detach(), child.bias))
    return model


class _Bf16Linear(nn.Module):
    """``W x + b`` with W and x in bf16, added up in float32."""

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None) -> None:
        super().__init__()
        self.in_features = weight.shape[1]
        self.register_buffer("weight", weight.to(torch.bfloat16))
        self.bias = bias

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B E"]:
        product = (x.to(torch.bfloat16) @ self.weight.T).to(x.dtype)
        return product if self.bias is None else product + self.bias


class _Int8Linear(nn.Module):
    """``W x + b`` with W and x in whole numbers."""

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None) -> None:
        super().__init__()
        self.in_features = weight.shape[1]
        scale = (weight.abs().amax(dim=1) / 127).clamp(min=torch.finfo(torch.float32).tiny).double()
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        engine = torch.backends.quantized.engine
        with warnings.catch_warnings():
            # torch means to move these types to another package; the version that is required here has them.
            warnings.simplefilter("ignore", UserWarning)
            torch.backends.quantized.engine = ENGINE
            try:
                zeros = torch.zeros_like(scale, dtype=torch.long)
                whole = torch.quantize_per_channel(weight, scale, zeros, 0, torch.qint8)
                self.packed = torch.ops.quantized.linear_prepack(whole, bias)
            finally:
                torch.backends.quantized.engine = engine

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B E"]:
        product: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed)
        return product
