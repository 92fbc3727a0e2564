"""What a network with a vocabulary is asked for: the logits of all positions, of some, or the loss of known words.

    network(tokens)                                    logits (B, T, V)
    network(tokens, at=LAST)                           logits (B, V) of the last position of each row
    network(tokens, targets=Targets(words, at))        the loss of these words, its logits never all in memory

So everything a task needs goes through ``forward``, where hooks, compilation and data parallelism can see it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["LAST", "Positions", "Targets", "answer"]

#: Some positions (b, t) of a batch: True where they are, or an index of both dimensions.
Positions = Bool[Tensor, "B T"] | tuple[slice, int]
#: The last position of each row. What asks for no logits asks for these: they cost next to nothing.
LAST: tuple[slice, int] = (slice(None), -1)
#: Positions whose logits are in memory at once where no gradient is wanted.
CHUNK_POSITIONS = 512


class Output(Protocol):
    """The layer from vectors to words."""

    def __call__(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]: ...

    def loss(
        self, x: Float[Tensor, "N D"], targets: Int[Tensor, " N"], label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]: ...


class Targets(NamedTuple):
    """The words that a network should predict, one after the other, and where it should predict them."""

    words: Int[Tensor, " N"]
    at: Positions | None = None  # N positions; None: all, row by row
    label_smoothing: float = 0.0
    summed: bool = True  # otherwise the loss of each word by itself: its negative log-probability

    def loss(self, output: Output, features: Float[Tensor, "B T D"]) -> Float[Tensor, ""] | Float[Tensor, " N"]:
        """The cross-entropy of the words given the vectors that they follow from."""
        chosen = features.flatten(0, 1) if self.at is None else features[self.at]
        if self.summed:
            return output.loss(chosen, self.words, self.label_smoothing)
        size = max(1, len(chosen)) if torch.is_grad_enabled() else CHUNK_POSITIONS
        parts = zip(torch.split(chosen, size), torch.split(self.words, size), strict=True)
        return torch.cat([self._each(output(vectors), words) for vectors, words in parts])

    def _each(self, logits: Float[Tensor, "N V"], words: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        precise = logits if logits.dtype == torch.float64 else logits.float()
        return F.cross_entropy(precise, words, reduction="none", label_smoothing=self.label_smoothing)


def answer(output: Output, features: Float[Tensor, "B T D"], targets: Targets | None, at: Positions | None) -> Tensor:
    """The loss of the targets, if there are any; otherwise logits, of all positions or of those asked for."""
    if targets is not None:
        return targets.loss(output, features)
    return output(features if at is None else features[at])
