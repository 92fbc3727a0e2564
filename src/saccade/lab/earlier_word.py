"""A task that can only be solved with positions: predict the word two positions earlier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from saccade.lab.learning import Examples
from saccade.models import EncoderOnly, TransformerConfig
from saccade.models.transformer_config import PositionKind

__all__ = ["DISTANCE", "WORDS", "accuracy_from", "draw_texts", "reader"]

WORDS, DISTANCE = 16, 2


def draw_texts(count: int, length: int) -> Examples:
    """Draw texts of random words. The answer for each word is the word two positions earlier; for the first two words,
    it is the first word."""
    words = torch.randint(WORDS, (count, length))
    return Examples(words, words[:, (torch.arange(length) - DISTANCE).clamp(min=0)])


def reader(position: PositionKind, max_length: int) -> EncoderOnly:
    config = TransformerConfig(
        width=32, num_heads=4, encoder_layers=2, feedforward_width=64, position=position, max_length=max_length,
        scaled_embedding=True, tied_output=False,
    )  # fmt: skip
    return EncoderOnly(config, WORDS)


@torch.inference_mode()
def accuracy_from(model: nn.Module, examples: Examples, first: int) -> float:
    """Return the percentage of correct answers at the positions from ``first`` on."""
    model.eval()
    right: Tensor = model(examples.inputs)[:, first:].argmax(-1) == examples.answers[:, first:]
    return 100 * float(right.float().mean())
