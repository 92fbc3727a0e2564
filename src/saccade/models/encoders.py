"""The ways of processing a sequence side by side (002 and 004 of the lectures), behind one form.

Recurrent, 1-D convolution, windows of neighbours and self-attention: each is an encoder that turns vectors (B, N, D)
and the lengths of the sequences into as many vectors, in the light of their neighbours. What lies beyond a length
changes nothing before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from jaxtyping import Float, Int
from pydantic import Field, field_validator
from torch import Tensor, nn

from saccade.attention import padding
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.convolutional import ConvolutionalEncoder
from saccade.models.layers import OneHot, WordEmbedding
from saccade.models.recurrent import ADDS_INPUT
from saccade.models.transformer import Block, InputLayer, TransformerConfig, final_norm
from saccade.models.window import WindowEncoder
from saccade.recurrent import Recurrent

__all__ = [
    "ConvolutionalEncoderConfig",
    "EncoderConfig",
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
    """What every encoder's configuration says."""

    @property
    def width(self) -> int: ...
    @property
    def encoder_layers(self) -> int: ...
    @property
    def dropout(self) -> float: ...


class RecurrentEncoderConfig(Config):
    """Recurrent layers that read in one or both directions."""

    cell: str = Field("lstm", description="Recurrent cell: rnn, lstm, gru (Cho's), gru_torch, mut1, mut2 or mut3")
    width: int = Field(256, ge=1, description="Width of the state of each direction")
    encoder_layers: int = Field(2, ge=1, description="Number of layers")
    bidirectional: bool = Field(True, description="Read in both directions")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout of inputs, between layers and of the result; one mask per sequence"
    )


class ConvolutionalEncoderConfig(Config):
    """Layers of gated convolutions (Dauphin 2017)."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    encoder_layers: int = Field(4, ge=1, description="Number of layers")
    kernel: int = Field(3, ge=1, description="Positions that a layer sees at once; an odd number")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout of inputs, of the input of each layer and of the result"
    )

    @field_validator("kernel")
    @classmethod
    def _odd(cls, kernel: int) -> int:
        if kernel % 2 == 0:
            raise ValueError("a kernel has a middle, so it is odd")
        return kernel


class WindowEncoderConfig(Config):
    """Fully connected layers over each vector and its neighbours (004's solution 1)."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    encoder_layers: int = Field(1, ge=1, description="Number of layers")
    radius: int = Field(2, ge=0, description="Neighbours seen on each side")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout of inputs, of the output of each layer and of the result"
    )


class TransformerEncoderConfig(TransformerConfig):
    """Transformer blocks that attend in both directions."""

    encoder_layers: int = Field(2, ge=1, description="Number of blocks")
    tied_output: bool = Field(False, description="Not used: labels are not words, so there is nothing to tie")


def locked_dropout(x: Float[Tensor, "B N D"], share: float, training: bool) -> Float[Tensor, "B N D"]:
    """Dropout with one mask for all positions of a sequence (Gal 2016): a dropped number stays dropped."""
    if not training or share == 0.0:
        return x
    return x * dropout(x.new_ones(len(x), 1, x.shape[2]), share, training)


class RecurrentEncoder(nn.Module):
    """Recurrent layers with locked dropout between them, which helps tagging most (Reimers & Gurevych 2017)."""

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
    """A list of blocks that can be called; the norm after them is the model's, as in ``EncoderOnly``."""

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N D"]:
        mask = padding(lengths)
        for block in self:
            x = block(x, mask=mask)
        return x


def _recurrent(config: RecurrentEncoderConfig, input_width: int) -> tuple[nn.Module, nn.Module | None]:
    return RecurrentEncoder(config, input_width), None


def _convolutional(config: ConvolutionalEncoderConfig, input_width: int) -> tuple[nn.Module, nn.Module | None]:
    encoder = ConvolutionalEncoder(config.width, config.encoder_layers, config.kernel, config.dropout)
    return _fitted(encoder, input_width, config.width), None


def _window(config: WindowEncoderConfig, input_width: int) -> tuple[nn.Module, nn.Module | None]:
    encoder = WindowEncoder(config.width, config.radius, config.encoder_layers, config.dropout)
    return _fitted(encoder, input_width, config.width), None


def _transformer(config: TransformerEncoderConfig, input_width: int) -> tuple[nn.Module, nn.Module | None]:
    assert input_width == config.width, "the input layer of a Transformer gives vectors of its width"
    return TransformerEncoder(Block(config) for _ in range(config.encoder_layers)), final_norm(config)


_BUILDERS: dict[type[Config], Callable[[Any, int], tuple[nn.Module, nn.Module | None]]] = {
    RecurrentEncoderConfig: _recurrent,
    ConvolutionalEncoderConfig: _convolutional,
    WindowEncoderConfig: _window,
    TransformerEncoderConfig: _transformer,
}


def build_encoder(config: Config, input_width: int) -> tuple[nn.Module, nn.Module | None]:
    """The encoder of this configuration for inputs of this width, and the norm after it, if it has one."""
    for kind, build in _BUILDERS.items():
        if isinstance(config, kind):
            return build(config, input_width)
    raise AssertionError(f"{type(config).__name__} configures no encoder")


def encoder_width(config: Config) -> int:
    """The width of what the encoder gives."""
    if isinstance(config, RecurrentEncoderConfig):
        return config.width * (2 if config.bidirectional else 1)
    return cast(EncoderConfig, config).width


class _Fitted(nn.Module):
    """An encoder behind a projection to its width."""

    def __init__(self, encoder: nn.Module, input_width: int, width: int) -> None:
        super().__init__()
        self.fit = nn.Linear(input_width, width)
        self.inner = encoder

    def forward(self, x: Float[Tensor, "B N I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N D"]:
        encoded: Tensor = self.inner(self.fit(x), lengths)
        return encoded


def _fitted(encoder: nn.Module, input_width: int, width: int) -> nn.Module:
    return encoder if input_width == width else _Fitted(encoder, input_width, width)


class TokenInput(nn.Module):
    """Tokens to vectors: a learned embedding (004's method 2), or one-hot words (method 1) for comparison."""

    def __init__(self, vocabulary: int, width: int, *, one_hot: bool, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.words: nn.Module = OneHot(vocabulary, width) if one_hot else WordEmbedding(vocabulary, width, scaled=True)

    def forward(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        return locked_dropout(self.words(tokens), self.dropout, self.training)


def build_token_input(config: Config, vocabulary: int, width: int, *, one_hot: bool) -> nn.Module:
    """What turns tokens into the encoder's inputs; a Transformer's has positions, and takes its own width."""
    if isinstance(config, TransformerEncoderConfig):
        return InputLayer(config, vocabulary)
    return TokenInput(vocabulary, width, one_hot=one_hot, dropout=cast(EncoderConfig, config).dropout)


def run_encoder(
    encoder: nn.Module, norm: nn.Module | None, x: Float[Tensor, "B N I"], lengths: Int[Tensor, " B"]
) -> Float[Tensor, "B N D"]:
    """The encoder and the norm after it; zeros beyond each length."""
    x = encoder(x, lengths)
    x = x if norm is None else norm(x)
    beyond = torch.arange(x.shape[1], device=x.device) >= lengths.to(x.device)[:, None]
    return x.masked_fill(beyond.unsqueeze(-1), 0.0)
