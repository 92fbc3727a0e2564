"""Describe the blocks of a model in order, with their parameters, their matrices and their attention layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from saccade.attention import MultiHead, editable

__all__ = ["describe_architecture"]


def describe_architecture(model: nn.Module) -> dict[str, Any]:
    """Return the number of parameters, and a description of every block that has any.

    A block is a layer of a stack (a ``ModuleList``), or a module outside the stacks.
    """
    layers = {id(layer): (name, layer) for name, layer in editable(model).items()}
    blocks = [_block(name, module, layers) for name, module in _blocks(model)]
    counted = {id(parameter): parameter.numel() for parameter in model.parameters()}
    return {"parameters": sum(counted.values()), "blocks": [block for block in blocks if block["parameters"]]}


def _blocks(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, child in model.named_children():
        if isinstance(child, nn.ModuleList):
            yield from ((f"{name}.{number}", one) for number, one in enumerate(child))
        else:
            yield name, child


def _block(name: str, module: nn.Module, layers: dict[int, tuple[str, nn.Module]]) -> dict[str, Any]:
    own = [layers[id(part)] for part in module.modules() if id(part) in layers]
    weights = ((path.rpartition(".")[0] or name, one) for path, one in module.named_parameters() if one.ndim == 2)
    return {
        "name": name,
        "kind": type(module).__name__,
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "shapes": {path: list(weight.shape) for path, weight in weights},
        "attentions": [
            {"name": key, "heads": layer.num_heads if isinstance(layer, MultiHead) else 1} for key, layer in own
        ],
    }
