"""Guided alignment (Chen 2016): a loss that pulls the attention of the last layer towards gold links."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention import MultiHead
from saccade.errors import OptionError
from saccade.models import Targets
from saccade.models.cross_attention import CrossAttention

__all__ = ["guided_loss"]


def guided_loss(
    model: nn.Module, arguments: tuple[Any, ...], targets: Targets, links: Float[Tensor, "B T S"]
) -> tuple[Tensor, Float[Tensor, ""]]:
    """Return the loss of the targets, and the alignment loss ``-Σ links · log weights``, where ``weights`` are the mean
    over the heads of the last cross-attention.

    The forward pass itself is unchanged; a hook on the last cross-attention computes its weights a second time, so that
    they have a gradient.
    """
    crossing = [module for name, module in model.named_modules() if name.endswith("cross")]
    layers = [module for module in crossing if isinstance(module, MultiHead | CrossAttention)]
    if not layers:
        raise OptionError("training.guided_alignment needs a model that attends to its source; this one does not.")
    layer = layers[-1]
    rows: list[Tensor] = []  # a recurrent decoder attends once per step

    def compute_weights(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        rows.append(layer.weigh(*arguments, **named))

    hook = layer.register_forward_pre_hook(compute_weights, with_kwargs=True)
    try:
        loss: Tensor = model(*arguments, targets=targets)
    finally:
        hook.remove()
    weights = torch.cat(rows, dim=2).mean(dim=1)
    return loss, -(links * torch.log(weights.clamp(min=1e-9))).sum()
