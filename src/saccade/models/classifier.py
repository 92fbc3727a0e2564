"""Networks that give a sequence one label (lecture 004, type 2): embed the tokens, encode them, pool the vectors."""

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
    RWKVEncoderConfig,
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
    "RWKVClassifierConfig",
    "RecurrentClassifierConfig",
    "TransformerClassifierConfig",
    "WindowClassifierConfig",
]

Pooling = Literal["mean", "max", "first", "last", "attention"]


class _PoolingConfig(Config):
    pooling: Pooling = Field(
        "attention",
        description="How the vectors of a sequence are combined into one: mean, max, attention, or only the first or "
        "last",
    )


class _WordsConfig(_PoolingConfig):
    embedding_width: int = Field(128, ge=1, description="Width of a token's embedding")
    one_hot: bool = Field(
        False, description="Use one-hot vectors for tokens; embedding_width must then be at least the vocabulary size"
    )


class RecurrentClassifierConfig(RecurrentEncoderConfig, _WordsConfig):
    """A classifier with recurrent layers."""


class ConvolutionalClassifierConfig(ConvolutionalEncoderConfig, _WordsConfig):
    """A classifier with convolutions."""


class WindowClassifierConfig(WindowEncoderConfig, _WordsConfig):
    """A classifier with fully connected layers over each token and its neighbours."""


class TransformerClassifierConfig(TransformerEncoderConfig, _PoolingConfig):
    """A classifier with Transformer blocks."""

    pooled_layer: Literal["none", "tanh", "relu"] = Field(
        "none",
        description="Put a dense layer with this activation between the pooled vector and the output (as BERT does)",
    )


class RWKVClassifierConfig(RWKVEncoderConfig, _WordsConfig):
    """A classifier with RWKV blocks."""


#: The settings of each kind of classifier, by the name that recipes use.
CLASSIFIERS: dict[str, type[Config]] = {
    "recurrent": RecurrentClassifierConfig,
    "convolutional": ConvolutionalClassifierConfig,
    "transformer": TransformerClassifierConfig,
    "window": WindowClassifierConfig,
    "rwkv": RWKVClassifierConfig,
}


class AttentionPooling(nn.Module):
    """``u_i = tanh(W h_i + b)``, ``a = softmax(u · q)``, ``Σ a_i h_i`` with a learned q (Yang 2016, eq. 5-7).

    The weights show how much each token contributes; ``saccade.watch`` records them under this module's name.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.query = nn.Parameter(torch.zeros(width))  # starts as the mean
        self.score, self.weights = (
            Dot(),
            Softmax(),
        )  # attributes, so that they can be edited like those of any attention

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
        keys = torch.tanh(self.key(x)).to(x.dtype)
        query = self.query.to(x.dtype).expand(len(x), 1, 1, -1)
        pooled = attend(
            query,
            keys.unsqueeze(1),
            x.unsqueeze(1),
            score=self.score,
            weights=self.weights,
            mask=padding(lengths),
            owner=self,
        )
        return pooled.flatten(1)


class Classifier(nn.Module):
    """Returns one logit per label for a token sequence. If it is a Transformer, its parameters have the same names as
    those of ``EncoderOnly``, so a masked language model's weights can be loaded."""

    def __init__(self, config: Config, vocabulary: int, labels: int) -> None:
        super().__init__()
        assert isinstance(config, _PoolingConfig)
        self.config: _PoolingConfig = config
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
        self.pooled_activation = getattr(config, "pooled_layer", "none")
        self.pooled = nn.Linear(encoded, encoded) if self.pooled_activation != "none" else None
        self.output = TiedLinear(encoded, labels, bias=True)

    @property
    def has_types(self) -> bool:
        """Whether the network takes token types, which say for each token to which of two texts it belongs."""
        return getattr(self.config, "token_types", 0) > 1

    def features(
        self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"], types: Int[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B D"]:
        """One vector per sequence; every sequence must have at least 1 token."""
        given = self.input(tokens, types) if self.has_types else self.input(tokens)
        x = run_encoder(self.encoder, self.encoder_norm, given, lengths)
        if self.pooling is not None:
            pooled: Tensor = self.pooling(x, lengths)
        elif self.config.pooling == "mean":
            pooled = x.sum(dim=1) / lengths[:, None].to(x)
        elif self.config.pooling == "max":
            padded = torch.arange(x.shape[1], device=x.device) >= lengths.to(x.device)[:, None]
            pooled = x.masked_fill(padded.unsqueeze(-1), -torch.inf).amax(dim=1)
        elif self.config.pooling == "first":
            pooled = x[:, 0]
        else:
            pooled = last_read(x, lengths, self.directions)
        if self.pooled is not None:
            pooled = getattr(torch, self.pooled_activation)(self.pooled(pooled))
        return dropout(pooled, self.share, self.training)

    def forward(
        self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"], types: Int[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B L"]:
        """A logit for each label. ``types`` is ignored by a network without token types, such as DistilBERT."""
        logits: Tensor = self.output(self.features(tokens, lengths, types))
        return logits


def last_read(x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"], directions: int) -> Float[Tensor, "B D"]:
    """For each sequence, the vector at the position that was read last.

    With two directions, it is the forward half at the last token, and the backward half at position 0.
    """
    last = x[torch.arange(len(x), device=x.device), lengths.to(x.device) - 1]
    if directions == 1:
        return last
    half = x.shape[2] // 2
    return torch.cat([last[:, :half], x[:, 0, half:]], dim=-1)
