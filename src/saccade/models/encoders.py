"""Five ways to process a sequence (lectures 002 and 004), with one interface.

Recurrent layers, RWKV, 1-D convolutions, windows of neighbours and self-attention are all encoders: they take vectors
(B, N, D) and the lengths of the sequences, and return as many vectors, each of which depends on several of the given
ones. Padding never affects the result.
"""

from __future__ import annotations

from typing import Protocol, cast

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.convolutional import ConvolutionalEncoder, OddKernel
from saccade.models.layers import OneHot, WordEmbedding
from saccade.models.recurrent import ADDS_INPUT, CELL_CHOICE
from saccade.models.rwkv import RWKVEncoder
from saccade.models.transformer_config import OF_DECODER, OF_WORD_OUTPUT, TransformerConfig
from saccade.models.transformer_layers import Block, InputLayer, encoder_blocks, encoder_masks, final_norm
from saccade.models.window import WholeWindow, WindowEncoder
from saccade.recurrent import Recurrent

__all__ = [
    "ConvolutionalEncoderConfig",
    "EncoderConfig",
    "RWKVEncoderConfig",
    "RecurrentEncoder",
    "RecurrentEncoderConfig",
    "TokenInput",
    "TransformerEncoder",
    "TransformerEncoderConfig",
    "WindowEncoderConfig",
    "build_encoder",
    "build_token_input",
    "encoder_width",
    "locked_dropout",
    "run_encoder",
]


class EncoderConfig(Protocol):
    """The settings that every encoder has."""

    @property
    def width(self) -> int: ...
    @property
    def encoder_layers(self) -> int: ...
    @property
    def dropout(self) -> float: ...


class RecurrentEncoderConfig(Config):
    """Recurrent layers that read in one or both directions."""

    cell: str = Field("lstm", description=CELL_CHOICE)
    width: int = Field(256, ge=1, description="Width of the state of each direction")
    encoder_layers: int = Field(2, ge=1, description="Number of layers")
    bidirectional: bool = Field(True, description="Read in both directions")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout on inputs, between layers and on the result; one mask per sequence"
    )


class ConvolutionalEncoderConfig(Config):
    """Layers of gated convolutions (Dauphin 2017)."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    encoder_layers: int = Field(4, ge=1, description="Number of layers")
    kernel: OddKernel = Field(3, ge=1, description="Number of positions that a layer sees at once; must be odd")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout on inputs, on the input of each layer and on the result"
    )


class WindowEncoderConfig(Config):
    """Fully connected layers over each vector and its neighbours (lecture 004, solution 1), or one fully connected
    layer over the whole sequence (solution 2)."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    encoder_layers: int = Field(1, ge=1, description="Number of layers")
    radius: int = Field(2, ge=0, description="Number of neighbours that a layer sees on each side")
    whole_length: int | None = Field(
        None,
        ge=1,
        description="Use one layer over the whole text instead, with weights for this many positions; longer texts "
        "are refused. The number of parameters grows with its square",
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout on inputs, on the output of each layer and on the result"
    )


class RWKVEncoderConfig(Config):
    """RWKV blocks, which read from left to right."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    encoder_layers: int = Field(2, ge=1, description="Number of blocks")
    feedforward_width: int = Field(512, ge=1, description="Hidden width of channel mixing")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on inputs, on the output of each layer and the result")


class TransformerEncoderConfig(TransformerConfig):
    """Transformer blocks that attend in both directions."""

    unused = OF_DECODER | OF_WORD_OUTPUT

    encoder_layers: int = Field(2, ge=1, description="Number of blocks")
    tied_output: bool = Field(False, description="Use the word embedding as the output layer")


def locked_dropout(x: Float[Tensor, "B N D"], share: float, training: bool) -> Float[Tensor, "B N D"]:
    """Dropout with one mask for all positions of a sequence (Gal 2016)."""
    if not training or share == 0.0:
        return x
    return x * dropout(x.new_ones(len(x), 1, x.shape[2]), share, training)


class RecurrentEncoder(nn.Module):
    """Recurrent layers; the dropout between them has one mask for all positions of a sequence, which Reimers & Gurevych
    (2017) found best for tagging."""

    def __init__(self, config: RecurrentEncoderConfig, input_width: int) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.directions = 2 if config.bidirectional else 1
        self.output_width = self.directions * config.width
        below = [input_width] + [self.output_width] * (config.encoder_layers - 1)
        needs_fit = config.cell in ADDS_INPUT
        self.fits = nn.ModuleList(
            nn.Linear(width, config.width) if needs_fit and width != config.width else nn.Identity() for width in below
        )
        self.layers = nn.ModuleList(
            Recurrent(
                config.cell, config.width if needs_fit else width, config.width, bidirectional=config.bidirectional
            )
            for width in below
        )

    def forward(self, x: Float[Tensor, "B N I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N D"]:
        for number, (fit, layer) in enumerate(zip(self.fits, self.layers, strict=True)):
            if number:
                x = locked_dropout(x, self.dropout, self.training)
            x, _ = layer(fit(x), lengths)
        return x


class TransformerEncoder(nn.ModuleList):
    """Transformer blocks that run one after another; the final norm belongs to the model, as in ``EncoderOnly``."""

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N D"]:
        masks = encoder_masks(cast(Block, self[0]).config, lengths)
        for block, mask in zip(self, masks, strict=True):
            x = block(x, mask=mask)
        return x


def build_encoder(config: Config, input_width: int) -> tuple[nn.Module, nn.Module | None]:
    """The encoder with these settings, for inputs of this width, and its final norm, or None if it has no such norm."""
    if isinstance(config, TransformerEncoderConfig):
        assert input_width == config.width, "a Transformer's input layer produces vectors of the Transformer's width"
        return TransformerEncoder(encoder_blocks(config)), final_norm(config)
    if isinstance(config, RecurrentEncoderConfig):
        return RecurrentEncoder(config, input_width), None
    encoder: nn.Module
    if isinstance(config, ConvolutionalEncoderConfig):
        encoder = ConvolutionalEncoder(config.width, config.encoder_layers, config.kernel, config.dropout)
    elif isinstance(config, RWKVEncoderConfig):
        encoder = RWKVEncoder(config.width, config.encoder_layers, config.feedforward_width, config.dropout)
    else:
        assert isinstance(config, WindowEncoderConfig)
        whole = config.whole_length
        encoder = (
            WholeWindow(config.width, whole)
            if whole is not None
            else WindowEncoder(config.width, config.radius, config.encoder_layers, config.dropout)
        )
    return encoder if input_width == config.width else _Projected(encoder, input_width, config.width), None


def encoder_width(config: Config) -> int:
    """The width of the vectors that the encoder returns."""
    if isinstance(config, RecurrentEncoderConfig):
        return config.width * (2 if config.bidirectional else 1)
    return cast(EncoderConfig, config).width


class _Projected(nn.Module):
    """An encoder whose inputs are first projected to its width."""

    def __init__(self, encoder: nn.Module, input_width: int, width: int) -> None:
        super().__init__()
        self.fit = nn.Linear(input_width, width)
        self.inner = encoder

    def forward(self, x: Float[Tensor, "B N I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N D"]:
        encoded: Tensor = self.inner(self.fit(x), lengths)
        return encoded


class TokenInput(nn.Module):
    """Turns tokens into learned embeddings (lecture 004, method 2), or into one-hot vectors (method 1)."""

    def __init__(self, vocabulary: int, width: int, *, one_hot: bool, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.words: nn.Module = OneHot(vocabulary, width) if one_hot else WordEmbedding(vocabulary, width, scaled=True)

    def forward(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        return locked_dropout(self.words(tokens), self.dropout, self.training)


def build_token_input(config: Config, vocabulary: int, width: int, *, one_hot: bool) -> nn.Module:
    """The layer that turns tokens into inputs of the encoder, vectors of this ``width``.

    For a Transformer, it also adds positions, and the width is that of the configuration instead.
    """
    if isinstance(config, TransformerEncoderConfig):
        return InputLayer(config, vocabulary)
    return TokenInput(vocabulary, width, one_hot=one_hot, dropout=cast(EncoderConfig, config).dropout)


def run_encoder(
    encoder: nn.Module, norm: nn.Module | None, x: Float[Tensor, "B N I"], lengths: Int[Tensor, " B"]
) -> Float[Tensor, "B N D"]:
    """The result of the encoder and its final norm, with zeros in the padding."""
    x = encoder(x, lengths)
    x = x if norm is None else norm(x)
    padded = torch.arange(x.shape[1], device=x.device) >= lengths.to(x.device)[:, None]
    return x.masked_fill(padded.unsqueeze(-1), 0.0)
