"""Small layers that several networks use: norms, activations, the feed-forward layer, word embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, ShapeError
from saccade.kernels.dropout import dropout
from saccade.kernels.vocabulary_loss import vocabulary_loss

__all__ = [
    "ACTIVATIONS",
    "NORMS",
    "Activation",
    "FeedForward",
    "NormKind",
    "OneHot",
    "TiedLinear",
    "WordEmbedding",
    "real_positions",
    "without_padding",
]

NormKind = Literal["layer", "rms"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


#: ``(x - mean) / √(variance + ε) · g + b`` (Ba 2016), and ``x / √(mean square + ε) · g`` (Zhang 2019).
NORMS: dict[str, Callable[[int, float, bool], nn.Module]] = {
    "layer": lambda width, epsilon, bias: nn.LayerNorm(width, eps=epsilon, bias=bias),
    "rms": lambda width, epsilon, bias: nn.RMSNorm(width, eps=epsilon),
}

#: GELU comes in two forms: exact, and the tanh approximation from its paper (Hendrycks 2016, eq. 2).
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def real_positions(x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"] | None) -> Bool[Tensor, "B N 1"] | None:
    """Return a mask that is True inside each sequence and False in its padding; None if ``lengths`` is None."""
    if lengths is None:
        return None
    if lengths.shape != x.shape[:1] or lengths.is_floating_point():
        raise ShapeError(f"Expected {len(x)} integer lengths, one per sequence; got {lengths.tolist()}.")
    if len(lengths) and (int(lengths.min()) < 0 or int(lengths.max()) > x.shape[1]):
        raise ShapeError(
            f"Lengths must be between 0 and {x.shape[1]}, the number of positions; got {lengths.tolist()}."
        )
    return (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]).unsqueeze(-1)


def without_padding(x: Float[Tensor, "B N D"], real: Bool[Tensor, "B N 1"] | None) -> Float[Tensor, "B N D"]:
    """Return x with zeros in its padding, which is where ``real`` is False."""
    return x if real is None else x.masked_fill(~real, 0.0)


class FeedForward(nn.Module):
    """``W_2 f(W_1 x)`` for each vector (Vaswani 2017, eq. 2), or gated: ``W_2 (f(W_1 x) ⊙ W_3 x)`` (Shazeer 2020)."""

    def __init__(
        self, width: int, hidden_width: int, activation: Activation, *, gated: bool = False, bias: bool = True
    ) -> None:
        super().__init__()
        self.gated = gated
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(width, hidden_width * (2 if gated else 1), bias=bias)
        self.outer = nn.Linear(hidden_width, width, bias=bias)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*B D"], share: float = 0.0) -> Float[Tensor, "*B D"]:
        hidden = self.inner(x)
        if self.gated:
            gate, hidden = hidden.chunk(2, dim=-1)
            hidden = self.activation(gate) * hidden
        else:
            hidden = self.activation(hidden)
        output: Tensor = self.outer(dropout(hidden, share, self.training))
        return output


class WordEmbedding(nn.Module):
    """A learned vector for each word (lecture 004, method 2), times √width if ``scaled`` (Vaswani 2017, §3.4)."""

    def __init__(self, vocabulary: int, width: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.scale = math.sqrt(width) if scaled else 1.0
        # Entries have standard deviation 1 after scaling; without scaling they start small (Radford 2019).
        nn.init.normal_(self.weight, std=1.0 / self.scale if scaled else 0.02)

    def forward(self, tokens: Int[Tensor, "*B N"]) -> Float[Tensor, "*B N D"]:
        found = F.embedding(tokens, self.weight)
        return found * self.scale if self.scale != 1.0 else found


class OneHot(nn.Module):
    """A one-hot vector for each word (lecture 004, method 1), padded with zeros to the width. Nothing is learned."""

    where: Tensor

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        if vocabulary > width:
            raise OptionError(
                f"One-hot words need a width of at least {vocabulary}, the size of the vocabulary; got {width}."
            )
        self.width = width
        self.register_buffer("where", torch.zeros(0), persistent=False)  # moves with the model, and so knows its dtype

    def forward(self, tokens: Int[Tensor, "*B N"]) -> Float[Tensor, "*B N D"]:
        return F.one_hot(tokens, self.width).to(self.where.dtype)


class TiedLinear(nn.Module):
    """``W x + b``, the output layer over a vocabulary; W may be shared with the word embedding (Press 2017)."""

    def __init__(self, width: int, vocabulary: int, *, bias: bool, tied: nn.Parameter | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width)) if tied is None else tied
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None
        if tied is None:
            nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return F.linear(x, self.weight, self.bias)

    def loss(
        self, x: Float[Tensor, "N D"], targets: Int[Tensor, " N"], label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """The summed cross-entropy of the target words, without ever holding all logits in memory."""
        return vocabulary_loss(x, self.weight, self.bias, targets, label_smoothing)
