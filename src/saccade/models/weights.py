"""Read and set the weights of a network by name."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

__all__ = ["assign", "unshared"]


def unshared(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, each of them once: tied weights only under the first of their names."""
    seen: dict[int, str] = {}
    tensors = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen[id(tensor)] = name
            tensors[name] = tensor.data
    return tensors


def assign(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Set the weights of a network that was built on torch's meta device, without copying; tied weights stay tied."""
    created: dict[int, nn.Parameter] = {}
    for prefix, module in network.named_modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                if id(parameter) not in created:
                    created[id(parameter)] = nn.Parameter(tensors[f"{prefix}.{name}" if prefix else name])
                module._parameters[name] = created[id(parameter)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                assert not buffer.numel(), "none of our networks has a buffer with values"
                module._buffers[name] = torch.zeros_like(buffer, device="cpu")
