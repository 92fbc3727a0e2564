"""A language model of RWKV blocks (Peng et al. 2023; lecture 002: "Transformer-level performance but with RNN")."""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.layers import TiedLinear, WordEmbedding
from saccade.models.stepped import SteppedLanguageModel
from saccade.recurrent import ChannelMixing, RecurrentState, State, TimeMixing, WKVState

__all__ = ["RWKVConfig", "RWKVEncoder", "RWKVLanguageModel"]


class RWKVConfig(Config):
    """The settings of RWKV, a recurrent network that reads all tokens of a text in parallel in training."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    decoder_layers: int = Field(4, ge=1, description="Number of blocks")
    feedforward_width: int = Field(1024, ge=1, description="Hidden width of channel mixing")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on embeddings and on the output of each layer")
    tied_output: bool = Field(True, description="Use the embedding as the output layer")


class _RwkvBlock(nn.Module):
    """Time and channel mixing, each with pre-norm and residual; the state is x, x, numerator, denominator, exponent."""

    def __init__(self, width: int, feedforward_width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.time_norm, self.channel_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.time = TimeMixing(width)
        self.channel = ChannelMixing(width, feedforward_width)

    def initial(self, x: Float[Tensor, "B D"]) -> State:
        """The state before the first token, for as many texts as ``x`` has rows."""
        zeros = torch.zeros_like(x)
        return (zeros, zeros, *WKVState.empty(zeros))

    def forward(self, x: Float[Tensor, "B T D"], state: State) -> tuple[Float[Tensor, "B T D"], State]:
        y, time_last, sums = self.time(self.time_norm(x), state[0], WKVState(*state[2:]))
        x = x + dropout(y, self.dropout, self.training)
        y, channel_last = self.channel(self.channel_norm(x), state[1])
        return x + dropout(y, self.dropout, self.training), (time_last, channel_last, *sums)


class RWKVEncoder(nn.Module):
    """RWKV blocks that read a text from left to right: each result depends only on the vectors up to its position, so
    padding after a text changes nothing."""

    def __init__(self, width: int, layers: int, feedforward_width: int, dropout: float) -> None:
        super().__init__()
        self.input_norm, self.final_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(_RwkvBlock(width, feedforward_width, dropout) for _ in range(layers))

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N D"]:
        x = self.input_norm(x)
        for block in self.blocks:
            x, _ = block(x, cast(_RwkvBlock, block).initial(x[:, 0]))
        encoded: Tensor = self.final_norm(x)
        return encoded


class RWKVLanguageModel(SteppedLanguageModel):
    """Predicts the next token with RWKV blocks: in parallel over the text in training, step by step in generation."""

    def __init__(self, config: RWKVConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.input = WordEmbedding(vocabulary, config.width)
        self.input_norm = nn.LayerNorm(config.width)
        sizes = (config.width, config.feedforward_width, config.dropout)
        self.decoder = nn.ModuleList(_RwkvBlock(*sizes) for _ in range(config.decoder_layers))
        self.decoder_norm = nn.LayerNorm(config.width)
        tied = self.input.weight if config.tied_output else None
        self.output = TiedLinear(config.width, vocabulary, bias=False, tied=tied)

    def initial(self, batch: int) -> RecurrentState:
        zeros = self.input.weight.new_zeros(batch, self.config.width)
        return tuple((zeros, zeros, *WKVState.empty(zeros)) for _ in self.decoder)

    def read(self, tokens: Tensor, state: RecurrentState) -> tuple[Float[Tensor, "B N D"], RecurrentState]:
        x = self.input_norm(dropout(self.input(tokens), self.config.dropout, self.training))
        new = []
        for block, old in zip(self.decoder, state, strict=True):
            x, after = block(x, old)
            new.append(after)
        features: Tensor = self.decoder_norm(x)
        return features, tuple(new)
