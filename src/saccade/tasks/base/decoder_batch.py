"""The part of a batch that a decoder reads and should predict, for tasks that generate text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from saccade.tasks.base.task import Batch
from saccade.text import END, START, pad

__all__ = ["DecoderBatch", "decoder_tokens"]


@dataclass(frozen=True)
class DecoderBatch(Batch):
    """Texts padded to one length: the decoder reads START and the text, and should predict the text and END."""

    read: Int[Tensor, "B T"]
    predicted: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]  # False where a text is padded
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return int(self.real.sum())


def decoder_tokens(
    texts: Sequence[list[int]], start: int = START, end: int = END
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Return what a decoder reads for these texts, what it should predict, and which positions are not padding."""
    read, lengths = pad([[start, *ids] for ids in texts])
    predicted, _ = pad([[*ids, end] for ids in texts])
    return read, predicted, torch.arange(read.shape[1]) < lengths[:, None]
