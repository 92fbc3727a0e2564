"""Faster inference with matrix products in bf16, or in int8 with one scale per row of a weight matrix.

    int8:  W[o] ≈ s[o] · q[o],  q integers from -127 to 127,  s[o] = max |W[o]| / 127

The inputs of a product are rounded in the same way, with a single scale that is computed for each batch. So in int8,
unlike in the other precisions, an answer can depend on which texts are answered together. The weights are rounded once.
Embeddings, norms, attention and everything else stay as they are. A model in lower precision cannot be trained.
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
ENGINE = "onednn"  # torch's fastest engine for int8 products


def lower_precision(model: nn.Module, precision: str) -> nn.Module:
    """Replace the model's linear layers, in place, by ones that compute in this precision; returns the model."""
    if precision not in get_args(Precision):
        raise UnknownNameError("precision", precision, get_args(Precision))
    if precision == "fp32":
        return model
    device = next(model.parameters()).device.type
    if precision == "int8" and (device != "cpu" or ENGINE not in torch.backends.quantized.supported_engines):
        raise OptionError(f"int8 needs a CPU and a build of torch with {ENGINE}; use fp32 or bf16 here.")
    if device == "cpu":
        check_narrow_products()
    narrow = _Int8Linear if precision == "int8" else _Bf16Linear
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear | TiedLinear):
                setattr(module, name, narrow(child.weight.detach(), child.bias))
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


class _Int8Linear(nn.Module):
    """``W x + b`` with W and x rounded to 8-bit integers."""

    weight: Tensor

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None) -> None:
        super().__init__()
        self.in_features = weight.shape[1]
        scale = (weight.abs().amax(dim=1) / 127).clamp(min=torch.finfo(torch.float32).tiny).double()
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        engine = torch.backends.quantized.engine
        with warnings.catch_warnings():
            # torch plans to move these types to another package; the versions that we support still have them.
            warnings.simplefilter("ignore", UserWarning)
            torch.backends.quantized.engine = ENGINE
            try:
                zeros = torch.zeros_like(scale, dtype=torch.long)
                rounded = torch.quantize_per_channel(weight, scale, zeros, 0, torch.qint8)
                self.packed = torch.ops.quantized.linear_prepack(rounded, bias)
            finally:
                torch.backends.quantized.engine = engine

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B E"]:
        product: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed)
        return product
