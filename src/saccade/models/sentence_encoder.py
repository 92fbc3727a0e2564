"""A Transformer that gives a text one vector, so that texts can be compared (Reimers & Gurevych 2019)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.models.transformer_config import OF_DECODER, OF_WORD_OUTPUT, TransformerConfig
from saccade.models.transformer_layers import InputLayer, encoder_blocks, encoder_masks, final_norm, run_blocks

__all__ = ["SentenceConfig", "SentenceEncoder"]


class SentenceConfig(TransformerConfig):
    """The settings of a Transformer that gives a text one vector."""

    unused = OF_DECODER | OF_WORD_OUTPUT

    pooling: Literal["mean", "max", "first"] = Field(
        "mean", description="How the vectors of the tokens become one: their mean, their maximum, or the first of them"
    )
    normalised: bool = Field(False, description="Divide the vector by its length")
    longest_text: int | None = Field(
        None, ge=1, description="Maximum number of tokens in a text, if lower than the number of positions"
    )


class SentenceEncoder(nn.Module):
    """Returns one vector for each text: a Transformer encodes its tokens, whose vectors are then pooled."""

    def __init__(self, config: SentenceConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.input = InputLayer(config, vocabulary)
        self.encoder = encoder_blocks(config)
        self.encoder_norm = final_norm(config)

    def features(self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N D"]:
        """A vector for each token that depends on all tokens of its text."""
        return run_blocks(self.encoder, self.encoder_norm, self.input(tokens), encoder_masks(self.config, lengths))

    def forward(self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        x = self.features(tokens, lengths)
        real = (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]).unsqueeze(-1)
        if self.config.pooling == "mean":
            x = x.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1)
        elif self.config.pooling == "max":
            x = x.masked_fill(~real, -torch.inf).amax(dim=1)
        else:
            x = x[:, 0]
        return F.normalize(x, dim=-1) if self.config.normalised else x
