"""Guided alignment (Chen 2016): a loss that pulls the attention of the last layer towards known links."""

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
    """The loss of the targets, and ``-Σ links · log weights``, where weights are the mean of the last layer's heads.

    The forward pass is unchanged; within it the weights are computed a second time, with their gradient.
    """
    layer = _last_cross(model)
    rows: list[Tensor] = []  # a recurrent decoder attends once per step

    def write_out(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        rows.append(layer.weigh(*arguments, **named))

    hook = layer.register_forward_pre_hook(write_out, with_kwargs=True)
    try:
        loss: Tensor = model(*arguments, targets=targets)
    finally:
        hook.remove()
    weights = torch.cat(rows, dim=2).mean(dim=1)
    return loss, -(links * torch.log(weights.clamp(min=1e-9))).sum()


def _last_cross(model: nn.Module) -> MultiHead | CrossAttention:
    layers = [
        m for name, m in model.named_modules() if name.endswith("cross") and isinstance(m, MultiHead | CrossAttention)
    ]
    if not layers:
        raise OptionError("training.guided_alignment needs a model that attends to its source; this one does not.")
    return layers[-1]
