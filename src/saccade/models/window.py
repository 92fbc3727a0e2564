"""What lecture 004 tries before attention: a fully connected layer over a window of neighbours, or over the whole
sequence."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, ShapeError
from saccade.kernels.dropout import dropout
from saccade.models.layers import real_positions, without_padding

__all__ = ["WholeWindow", "WindowEncoder"]


class WindowEncoder(nn.Module):
    """Solution 1 of lecture 004: fully connected layers over each vector concatenated with its neighbours."""

    def __init__(self, width: int, radius: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        if radius < 0 or layers < 1:
            raise OptionError(f"A window needs a radius of at least 0 and at least 1 layer, not {radius} and {layers}.")
        self.radius = radius
        self.dropout = dropout
        self.layers = nn.ModuleList(nn.Linear((2 * radius + 1) * width, width) for _ in range(layers))

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N D"]:
        real = real_positions(x, lengths)
        for layer in self.layers:
            x = without_padding(x, real)  # neighbours in the padding are zeros
            padded = F.pad(x, (0, 0, self.radius, self.radius))
            windows = padded.unfold(1, 2 * self.radius + 1, 1).transpose(2, 3).flatten(2)
            x = dropout(torch.relu(layer(windows)), self.dropout, self.training)
        return without_padding(x, real)


class WholeWindow(nn.Module):
    """Solution 2 of lecture 004: one fully connected layer over a whole sequence of up to N = ``length`` vectors. For
    vectors of width D, it has N²D² weights."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.width = width
        self.length = length
        self.layer = nn.Linear(length * width, length * width)

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N D"]:
        count = x.shape[1]
        if count > self.length:
            raise ShapeError(f"This layer takes at most {self.length} positions; the input has {count}.")
        x = without_padding(x, real_positions(x, lengths))
        whole = F.pad(x, (0, 0, 0, self.length - count)).flatten(1)
        mixed: Tensor = torch.relu(self.layer(whole)).view(-1, self.length, self.width)
        return mixed[:, :count]
