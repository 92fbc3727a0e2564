"""What a network with a vocabulary returns: logits at all positions, logits at some, or the loss of given target words.

    network(tokens)                                    logits (B, T, V)
    network(tokens, at=LAST)                           logits (B, V) at the last position of each row
    network(tokens, targets=Targets(words, at))        the loss of these words, without all logits in memory

So a task needs no method but ``forward``, for which hooks, compilation and data parallelism work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

__all__ = ["LAST", "Output", "Positions", "Seq2Seq", "Targets", "answer"]

#: A selection of positions (b, t) in a batch: a mask, or an index for both dimensions.
Positions = Bool[Tensor, "B T"] | tuple[slice, int]
#: The last position of each row. A caller that needs no logits passes this, because it costs next to nothing.
LAST: tuple[slice, int] = (slice(None), -1)
#: Number of positions whose logits are in memory at once if no gradient is needed.
CHUNK_POSITIONS = 512


class Output(Protocol):
    """The output layer, which turns vectors into logits over the vocabulary."""

    def __call__(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]: ...

    def loss(
        self, x: Float[Tensor, "N D"], targets: Int[Tensor, " N"], label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]: ...


class Targets(NamedTuple):
    """The words that a network should predict, as one flat list of ids, and the position at which to predict each."""

    words: Int[Tensor, " N"]
    at: Positions | None = None  # N positions; None for all, row by row
    label_smoothing: float = 0.0
    summed: bool = True  # False for the loss of each word: its negative log-probability

    def loss(self, output: Output, features: Float[Tensor, "B T D"]) -> Float[Tensor, ""] | Float[Tensor, " N"]:
        """The cross-entropy of the words, computed from the network's vectors: the sum, or that of each word."""
        chosen = features.flatten(0, 1) if self.at is None else features[self.at]
        if self.summed:
            return output.loss(chosen, self.words, self.label_smoothing)
        size = max(1, len(chosen)) if torch.is_grad_enabled() else CHUNK_POSITIONS
        losses = []
        for vectors, words in zip(torch.split(chosen, size), torch.split(self.words, size), strict=True):
            logits = output(vectors)
            precise = logits if logits.dtype == torch.float64 else logits.float()
            losses.append(F.cross_entropy(precise, words, reduction="none", label_smoothing=self.label_smoothing))
        return torch.cat(losses)


def answer(output: Output, features: Float[Tensor, "B T D"], targets: Targets | None, at: Positions | None) -> Tensor:
    """The loss of ``targets`` if these are given; otherwise the logits at the positions ``at``, or at all positions."""
    if targets is not None:
        return targets.loss(output, features)
    return output(features if at is None else features[at])


class Seq2Seq(nn.Module, ABC):
    """A network that reads a source and predicts a target, token by token."""

    output: Output

    @abstractmethod
    def features(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """A vector for each target token, from which the next token is predicted."""

    def forward(
        self,
        source: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"] | None,
        target: Int[Tensor, "B T"],
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        """Logits (B, T, V) for the token after each target token, or only at the positions ``at``.

        If ``targets`` are given, the loss of these tokens instead.
        """
        return answer(self.output, self.features(source, lengths, target), targets, at)
