"""Networks that give each word a label (lecture 004, type 1): read words as vectors, encode them, label each one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.attention import MultiHead, padding
from saccade.errors import OptionError
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.encoders import (
    ConvolutionalEncoderConfig,
    EncoderConfig,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
    WindowEncoderConfig,
    build_encoder,
    encoder_width,
    locked_dropout,
    run_encoder,
)
from saccade.models.layers import TiedLinear, WordEmbedding
from saccade.models.transformer_layers import InputLayer, position_table
from saccade.models.word_reader import ReaderConfig, WordReader, mean_of_pieces

__all__ = [
    "TAGGERS",
    "ConvolutionalTaggerConfig",
    "RecurrentTaggerConfig",
    "Tagger",
    "TransformerTaggerConfig",
    "WindowTaggerConfig",
]


#: A function from rows of tokens, and their lengths, to a vector for each token.
ReadRow = Callable[[Tensor, Tensor], Tensor]
#: The width of the embedding of a feature.
FEATURE_WIDTH = 32


class RecurrentTaggerConfig(RecurrentEncoderConfig, ReaderConfig):
    """A tagger with recurrent layers."""

    attention_heads: int = Field(
        0,
        ge=0,
        description="Number of heads of an extra self-attention layer on top, whose weights can be viewed; 0 for none",
    )


class ConvolutionalTaggerConfig(ConvolutionalEncoderConfig, ReaderConfig):
    """A tagger with convolutions."""


class WindowTaggerConfig(WindowEncoderConfig, ReaderConfig):
    """A tagger with fully connected layers over each word and its neighbours."""


class TransformerTaggerConfig(TransformerEncoderConfig, ReaderConfig):
    """A tagger with Transformer blocks over words, or over the subword pieces of words."""

    unit: Literal["words", "pieces"] = Field(
        "words",
        description="What the blocks attend over: words (only then, word_width to character_kernel have an effect), or "
        "pieces (only then, one_hot, embedding_width, scaled_embedding, embedding_norm and token_types have one), "
        "which are averaged into words at the end",
    )


#: The settings of each kind of tagger, by the name that recipes use.
TAGGERS: dict[str, type[Config]] = {
    "recurrent": RecurrentTaggerConfig,
    "convolutional": ConvolutionalTaggerConfig,
    "transformer": TransformerTaggerConfig,
    "window": WindowTaggerConfig,
}


class _TransformerWords(nn.Module):
    """The input of a Transformer over words: the word vectors, projected to its width, with positions."""

    def __init__(self, config: TransformerTaggerConfig, reader: nn.Module, width: int) -> None:
        super().__init__()
        self.reader = reader
        self.fit = nn.Linear(width, config.width - config.position_width)
        self.positions = position_table(config)

    def forward(self, *parts: Tensor) -> Float[Tensor, "B N D"]:
        x: Tensor = self.fit(self.reader(*parts))
        return x if self.positions is None else self.positions(x)


class _WithFeatures(nn.Module):
    """Appends an embedding of each feature to the vector of a word."""

    def __init__(self, reader: WordReader, features: Sequence[int]) -> None:
        super().__init__()
        self.reader = reader
        self.embeddings = nn.ModuleList(WordEmbedding(size, FEATURE_WIDTH, scaled=True) for size in features)

    def forward(
        self,
        words: Int[Tensor, "B N"],
        pieces: Int[Tensor, "B N P"],
        characters: Int[Tensor, "B N C"],
        features: Int[Tensor, "B N F"],
    ) -> Float[Tensor, "B N D"]:
        read = self.reader(words, pieces, characters)
        return torch.cat([read, *(one(features[..., n]) for n, one in enumerate(self.embeddings))], dim=-1)


class _WordsAttend(nn.Module):
    """``x + dropout(MultiHead(norm(x)))``: each word also attends to all others. It starts as ``x``, since ``W_O``
    starts as 0."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = nn.LayerNorm(width)
        self.self = MultiHead(width, num_heads)
        nn.init.zeros_(self.self.output.weight)

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N D"]:
        attended: Tensor = self.self(locked_dropout(self.norm(x), self.dropout, self.training), mask=padding(lengths))
        return x + locked_dropout(attended, self.dropout, self.training)


class Tagger(nn.Module):
    """Returns a logit for each label of each word. ``words``, ``pieces``, ``characters``, ``labels`` and ``features``
    are vocabulary sizes. Each feature of a word, such as its part of speech, is embedded and appended to the word's
    vector.

    With ``unit = "pieces"``, all parameters except those of the output layer have the same names as in ``EncoderOnly``,
    so the weights of a masked language model can be loaded.
    """

    sizes: dict[str, int]  # of the vocabularies of words, pieces and characters
    feature_sizes: tuple[int, ...]  # of the vocabulary of each feature

    def __init__(
        self, config: Config, *, words: int, pieces: int, characters: int, labels: int, features: Sequence[int] = ()
    ) -> None:
        super().__init__()
        assert isinstance(config, tuple(TAGGERS.values()))
        assert isinstance(config, ReaderConfig)
        self.config = config
        self.sizes = {"words": words, "pieces": pieces, "characters": characters}
        self.feature_sizes = tuple(features)
        self.share = cast(EncoderConfig, config).dropout
        self.by_pieces = isinstance(config, TransformerTaggerConfig) and config.unit == "pieces"
        self.input: nn.Module
        if isinstance(config, TransformerTaggerConfig) and config.unit == "pieces":
            if features:
                raise OptionError('model.unit = "pieces" cannot read feature_columns; use "words".')
            self.input, width = InputLayer(config, pieces), config.width
        else:
            reader = WordReader(config, words=words, pieces=pieces, characters=characters, dropout=self.share)
            self.input = _WithFeatures(reader, features) if features else reader
            width = config.reader_width + FEATURE_WIDTH * len(features)
            if isinstance(config, TransformerTaggerConfig):
                self.input, width = _TransformerWords(config, self.input, width), config.width
        self.encoder, self.encoder_norm = build_encoder(config, width)
        heads = config.attention_heads if isinstance(config, RecurrentTaggerConfig) else 0
        self.top = _WordsAttend(encoder_width(config), heads, self.share) if heads else None
        self.output = TiedLinear(encoder_width(config), labels, bias=True)

    def features(
        self,
        words: Int[Tensor, "B N"],
        pieces: Int[Tensor, "B N P"],
        characters: Int[Tensor, "B N C"],
        lengths: Int[Tensor, " B"],
        features: Int[Tensor, "B N F"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        """A vector for each word that depends on the whole sentence; in words, pieces and characters, 0 is padding.

        ``pieces`` may have one more word before the first word and one after the last, such as [CLS] and [SEP].

        The sizes of later tensors depend on the values of pieces and characters, so keep these two on the CPU.
        """
        inner = without_frame(words, pieces)
        if self.by_pieces:
            x = mean_over_words(self._encode_pieces, pieces)[:, inner]
        else:
            more = () if features is None or not features.shape[2] else (features,)
            x = self.input(words, pieces[:, inner], characters, *more)
            x = run_encoder(self.encoder, self.encoder_norm, x, lengths)
            x = x if self.top is None else self.top(x, lengths)
        drop = locked_dropout if isinstance(self.config, RecurrentEncoderConfig) else dropout
        return drop(x, self.share, self.training)

    def forward(
        self,
        words: Int[Tensor, "B N"],
        pieces: Int[Tensor, "B N P"],
        characters: Int[Tensor, "B N C"],
        lengths: Int[Tensor, " B"],
        at: Bool[Tensor, "B N"] | None = None,
        features: Int[Tensor, "B N F"] | None = None,
    ) -> Float[Tensor, "B N L"] | Float[Tensor, "W L"]:
        """A logit for each label of every word; with ``at``, only for the words where it is True, as one flat list."""
        found = self.features(words, pieces, characters, lengths, features)
        logits: Tensor = self.output(found if at is None else found[at])
        return logits

    def _encode_pieces(self, tokens: Int[Tensor, "B T"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T D"]:
        return run_encoder(self.encoder, self.encoder_norm, self.input(tokens.to(self.output.weight.device)), lengths)

    def logits_of_words(
        self, logits_of_pieces: ReadRow, words: Int[Tensor, "B N"], pieces: Int[Tensor, "B N P"]
    ) -> Float[Tensor, "B N L"]:
        """The same logits of words as ``forward`` with ``unit = "pieces"``, from a function that returns those of all
        pieces, such as an exported graph."""
        found = mean_over_words(logits_of_pieces, pieces)
        has_pieces = (pieces != 0).any(dim=2, keepdim=True)  # the vector of a word without pieces is 0
        assert self.output.bias is not None
        return torch.where(has_pieces, found, self.output.bias)[:, without_frame(words, pieces)]


def without_frame(words: Int[Tensor, "B N"], pieces: Int[Tensor, "B N P"]) -> slice:
    """Return the part of ``pieces`` that belongs to words, without a first and last entry such as [CLS] and [SEP]."""
    before = (pieces.shape[1] - words.shape[1]) // 2
    return slice(before, before + words.shape[1])


def mean_over_words(read: ReadRow, pieces: Int[Tensor, "B N P"]) -> Float[Tensor, "B N D"]:
    """Read all pieces of a sentence as one row, then average over the pieces of each word."""
    tokens, place, lengths = in_one_row(pieces)
    x = read(tokens, lengths)
    back = place.to(x.device).flatten(1).unsqueeze(-1).expand(-1, -1, x.shape[2])
    return mean_of_pieces(x.gather(1, back).view(*pieces.shape, -1), pieces)


def in_one_row(
    pieces: Int[Tensor, "B N P"],
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B N P"], Int[Tensor, " B"]]:
    """Return the pieces of each sentence in one row without padding between words, the position of each piece in its
    row, and the number of pieces in each row."""
    real = (pieces != 0).flatten(1)
    lengths = real.sum(dim=1)
    longest = int(lengths.max()) if len(lengths) else 0
    place = torch.where(real, real.cumsum(dim=1) - 1, longest)  # padding goes one past the last piece
    tokens = F.pad(torch.zeros_like(pieces[:, 0, :1]).expand(-1, longest), (0, 1))
    tokens = tokens.scatter(1, place, pieces.flatten(1))[:, :longest]
    return tokens, place.clamp(max=max(0, longest - 1)).view(pieces.shape), lengths
