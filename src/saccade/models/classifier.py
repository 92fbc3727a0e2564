"""One label for a sequence (004's type 2): tokens to vectors, an encoder over them, and one vector from all."""

from __future__ import annotations

from typing import Literal, cast

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.attention import Dot, Softmax, attend, padding
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.encoders import (
    ConvolutionalEncoderConfig,
    EncoderConfig,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
    WindowEncoderConfig,
    build_encoder,
    build_token_input,
    encoder_width,
    run_encoder,
)
from saccade.models.layers import TiedLinear

__all__ = [
    "CLASSIFIERS",
    "AttentionPooling",
    "Classifier",
    "ConvolutionalClassifierConfig",
    "Pooling",
    "RecurrentClassifierConfig",
    "TransformerClassifierConfig",
    "WindowClassifierConfig",
]

Pooling = Literal["mean", "last", "attention"]


class _PoolingConfig(Config):
    pooling: Pooling = Field(
        "attention", description="How a sequence becomes one vector: mean, last, or what attention picks"
    )


class _WordsConfig(_PoolingConfig):
    embedding_width: int = Field(128, ge=1, description="Width of a token's embedding")
    one_hot: bool = Field(
        False, description="Use one-hot vectors for tokens; embedding_width must then be at least the vocabulary size"
    )


class RecurrentClassifierConfig(RecurrentEncoderConfig, _WordsConfig):
    """A classifier whose tokens are read by recurrent layers."""


class ConvolutionalClassifierConfig(ConvolutionalEncoderConfig, _WordsConfig):
    """A classifier whose tokens are read by convolutions."""


class WindowClassifierConfig(WindowEncoderConfig, _WordsConfig):
    """A classifier that sees each token with its neighbours."""


class TransformerClassifierConfig(TransformerEncoderConfig, _PoolingConfig):
    """A classifier whose tokens attend to each other."""


#: The networks that label sequences, by the kind that a recipe names.
CLASSIFIERS: dict[str, type[Config]] = {
    "recurrent": RecurrentClassifierConfig,
    "convolutional": ConvolutionalClassifierConfig,
    "transformer": TransformerClassifierConfig,
    "window": WindowClassifierConfig,
}


class AttentionPooling(nn.Module):
    """``u_i = tanh(W h_i + b)``, ``a = softmax(u · q)``, ``Σ a_i h_i`` with a learned q (Yang 2016, eq. 5-7).

    Its weights say which tokens decided; a watcher sees them under this module's name.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.query = nn.Parameter(torch.zeros(width))  # initially the mean
        self.score, self.weights = Dot(), Softmax()  # its own, so that it can be edited like any attention

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        keys = torch.tanh(self.key(x)).to(x.dtype)
        query = self.query.to(x.dtype).expand(len(x), 1, 1, -1)
        taken = attend(
            query,
            keys.unsqueeze(1),
            x.unsqueeze(1),
            score=self.score,
            weights=self.weights,
            mask=padding(lengths),
            owner=self,
        )
        return taken.flatten(1)


class Classifier(nn.Module):
    """A label for a sequence of tokens; a Transformer's parameters are named as those of ``EncoderOnly``."""

    def __init__(self, config: Config, vocabulary: int, labels: int) -> None:
        super().__init__()
        assert isinstance(config, _PoolingConfig)
        self.config = config
        self.share = cast(EncoderConfig, config).dropout
        self.directions = 2 if isinstance(config, RecurrentEncoderConfig) and config.bidirectional else 1
        if isinstance(config, _WordsConfig):
            width, one_hot = config.embedding_width, config.one_hot
        else:
            assert isinstance(config, TransformerEncoderConfig)
            width, one_hot = config.width, config.one_hot
        self.input = build_token_input(config, vocabulary, width, one_hot=one_hot)
        self.encoder, self.encoder_norm = build_encoder(config, width)
        encoded = encoder_width(config)
        self.pooling = AttentionPooling(encoded) if config.pooling == "attention" else None
        self.output = TiedLinear(encoded, labels, bias=True)

    def features(self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        """One vector for each sequence, which has at least 1 token."""
        x = run_encoder(self.encoder, self.encoder_norm, self.input(tokens), lengths)
        if self.pooling is not None:
            pooled: Tensor = self.pooling(x, lengths)
        elif self._pooling_kind == "mean":
            pooled = x.sum(dim=1) / lengths[:, None].to(x)
        else:
            pooled = last_read(x, lengths, self.directions)
        return dropout(pooled, self.share, self.training)

    def forward(self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B L"]:
        logits: Tensor = self.output(self.features(tokens, lengths))
        return logits

    @property
    def _pooling_kind(self) -> Pooling:
        assert isinstance(self.config, _PoolingConfig)
        return self.config.pooling


def last_read(x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"], directions: int) -> Float[Tensor, "B D"]:
    """The vector at the end of each sequence; the backward direction ends at its beginning."""
    last = x[torch.arange(len(x), device=x.device), lengths.to(x.device) - 1]
    if directions == 1:
        return last
    half = x.shape[2] // 2
    return torch.cat([last[:, :half], x[:, 0, half:]], dim=-1)
