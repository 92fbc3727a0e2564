"""LoRA (Hu 2022): keep a large matrix unchanged, and train two small matrices whose product is added to it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from saccade.models.weights import unshared

__all__ = ["PROJECTIONS", "LowRank", "Projection", "add_low_rank", "apart", "as_trained", "join", "merge", "merged"]

#: The layers of a Transformer block: those of attention, then those of the feed-forward layer.
Projection = Literal["query", "key_value", "output", "inner", "outer"]
PROJECTIONS: tuple[Projection, ...] = get_args(Projection)

#: How torch names the weight of a layer with something added to it, and how it names the two factors.
ORIGINAL, ADDED = ".parametrizations.weight.original", ".parametrizations.weight.0"
_FACTOR = re.compile(rf"{re.escape(ADDED)}\.(down|up)$")


class LowRank(nn.Module):
    """``W + B A`` (Hu 2022, eq. 3): A has ``rank`` rows, B as many columns. B starts as 0, so the sum is W at first."""

    def __init__(self, weight: Float[Tensor, "O I"], rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, weight.shape[1]))
        self.up = nn.Parameter(torch.zeros(weight.shape[0], rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Float[Tensor, "O I"]) -> Float[Tensor, "O I"]:
        return torch.addmm(weight, self.up, self.down)


def add_low_rank(network: nn.Module, rank: int, layers: Collection[Projection]) -> int:
    """Add a trainable product of this rank to the weights of these layers in every block.

    The original weights are frozen. The ``weight`` of each layer is now the sum of the original and the product, so
    nothing else in the network changes. Return the number of layers to which a product was added.
    """
    found = [
        module
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and re.search(r"\d+\.(?:.*\.)?(\w+)$", name) and name.split(".")[-1] in layers
    ]
    for module in found:
        parametrize.register_parametrization(module, "weight", LowRank(module.weight, rank))
        module.get_parameter(ORIGINAL[1:]).requires_grad_(False)
    return len(found)


def merge(network: nn.Module) -> None:
    """Undo `add_low_rank`, but keep what was learned: each layer's ``weight`` becomes one tensor, equal to the sum."""
    for module in network.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)


def merged(network: nn.Module) -> dict[str, Tensor]:
    """The network's weights by name, with LoRA's products added to them; the network itself does not change."""
    return join(*apart(network))


def apart(network: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the original weights, under the names that they have without LoRA, and LoRA's matrices (``LAYER.up``)."""
    tensors = unshared(network)
    weights = {name.replace(ORIGINAL, ".weight"): one for name, one in tensors.items() if not _FACTOR.search(name)}
    return weights, {name.replace(ADDED, ""): one for name, one in tensors.items() if _FACTOR.search(name)}


def join(weights: Mapping[str, Tensor], factors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a network with LoRA's products added, from the two parts that ``apart`` returned."""
    layers = [name.removesuffix(".up") for name in factors if name.endswith(".up")]
    sums = {
        f"{layer}.weight": torch.addmm(weights[f"{layer}.weight"], factors[f"{layer}.up"], factors[f"{layer}.down"])
        for layer in layers
    }
    return {**weights, **sums}


def as_trained(weights: Mapping[str, Tensor], factors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Both parts that ``apart`` returned, under the names that they have in a network after ``add_low_rank``."""
    layers = {name.rpartition(".")[0] for name in factors}
    renamed = {f"{layer}.weight": f"{layer}{ORIGINAL}" for layer in layers}
    named = {".".join((name.rpartition(".")[0] + ADDED, name.rpartition(".")[2])): one for name, one in factors.items()}
    return {**{renamed.get(name, name): one for name, one in weights.items()}, **named}
