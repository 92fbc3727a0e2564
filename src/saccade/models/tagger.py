"""A label for each word (004's type 1): words to vectors, an encoder over them, and a label from each."""

from __future__ import annotations

from typing import Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

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
from saccade.models.layers import TiedLinear
from saccade.models.transformer import InputLayer, position_table
from saccade.models.word_reader import ReaderConfig, WordReader, mean_of_pieces

__all__ = [
    "TAGGERS",
    "ConvolutionalTaggerConfig",
    "RecurrentTaggerConfig",
    "Tagger",
    "TransformerTaggerConfig",
    "WindowTaggerConfig",
]


class RecurrentTaggerConfig(RecurrentEncoderConfig, ReaderConfig):
    """A tagger whose words are read by recurrent layers."""


class ConvolutionalTaggerConfig(ConvolutionalEncoderConfig, ReaderConfig):
    """A tagger whose words are read by convolutions."""


class WindowTaggerConfig(WindowEncoderConfig, ReaderConfig):
    """A tagger that sees each word with its neighbours."""


class TransformerTaggerConfig(TransformerEncoderConfig, ReaderConfig):
    """A tagger whose words, or their pieces, attend to each other."""

    unit: Literal["words", "pieces"] = Field(
        "words", description="What attends: words, or all pieces, averaged into words at the end"
    )


#: The networks that label words, by the kind that a recipe names.
TAGGERS: dict[str, type[Config]] = {
    "recurrent": RecurrentTaggerConfig,
    "convolutional": ConvolutionalTaggerConfig,
    "transformer": TransformerTaggerConfig,
    "window": WindowTaggerConfig,
}


class _PlacedWords(nn.Module):
    """Words as a Transformer takes them: of its width, and with their positions."""

    def __init__(self, config: TransformerTaggerConfig, reader: WordReader) -> None:
        super().__init__()
        self.reader = reader
        self.fit = nn.Linear(config.reader_width, config.width - config.position_width)
        self.positions = position_table(config)

    def forward(
        self, words: Int[Tensor, "B N"], pieces: Int[Tensor, "B N P"], characters: Int[Tensor, "B N C"]
    ) -> Float[Tensor, "B N D"]:
        x: Tensor = self.fit(self.reader(words, pieces, characters))
        return x if self.positions is None else self.positions(x)


class Tagger(nn.Module):
    """Words, however they are written, to labels; the numbers are the sizes of the vocabularies.

    With ``unit = "pieces"`` the names of all parameters but the output's are those of ``EncoderOnly``, so that a
    masked language model's weights fit.
    """

    def __init__(self, config: Config, *, words: int, pieces: int, characters: int, labels: int) -> None:
        super().__init__()
        assert isinstance(config, tuple(TAGGERS.values()))
        assert isinstance(config, ReaderConfig)
        self.config = config
        self.share = cast(EncoderConfig, config).dropout
        self.by_pieces = isinstance(config, TransformerTaggerConfig) and config.unit == "pieces"
        self.input: nn.Module
        if isinstance(config, TransformerTaggerConfig) and config.unit == "pieces":
            self.input, width = InputLayer(config, pieces), config.width
        else:
            self.input = WordReader(config, words=words, pieces=pieces, characters=characters, dropout=self.share)
            width = config.reader_width
            if isinstance(config, TransformerTaggerConfig):
                self.input, width = _PlacedWords(config, self.input), config.width
        self.encoder, self.encoder_norm = build_encoder(config, width)
        self.output = TiedLinear(encoder_width(config), labels, bias=True)

    def features(
        self,
        words: Int[Tensor, "B N"],
        pieces: Int[Tensor, "B N P"],
        characters: Int[Tensor, "B N C"],
        lengths: Int[Tensor, " B"],
    ) -> Float[Tensor, "B N D"]:
        """A vector for each word, in the light of all others; 0 is padding in each of the three.

        How many vectors are computed depends on the pieces and characters: those had better be on the CPU.
        """
        if self.by_pieces:
            x = self._from_pieces(pieces)
        else:
            x = run_encoder(self.encoder, self.encoder_norm, self.input(words, pieces, characters), lengths)
        drop = locked_dropout if isinstance(self.config, RecurrentEncoderConfig) else dropout
        return drop(x, self.share, self.training)

    def forward(
        self,
        words: Int[Tensor, "B N"],
        pieces: Int[Tensor, "B N P"],
        characters: Int[Tensor, "B N C"],
        lengths: Int[Tensor, " B"],
        at: Bool[Tensor, "B N"] | None = None,
    ) -> Float[Tensor, "B N L"] | Float[Tensor, "W L"]:
        """A score for each label, of all words; or of those ``at`` which are asked for, one after the other."""
        features = self.features(words, pieces, characters, lengths)
        logits: Tensor = self.output(features if at is None else features[at])
        return logits

    def _from_pieces(self, pieces: Int[Tensor, "B N P"]) -> Float[Tensor, "B N D"]:
        """All pieces of a sentence in one row, encoded, and each word the mean of its own again."""
        tokens, place, lengths = in_one_row(pieces)
        x = run_encoder(self.encoder, self.encoder_norm, self.input(tokens.to(self.output.weight.device)), lengths)
        back = place.to(x.device).flatten(1).unsqueeze(-1).expand(-1, -1, x.shape[2])
        return mean_of_pieces(x.gather(1, back).view(*pieces.shape, -1), pieces)


def in_one_row(
    pieces: Int[Tensor, "B N P"],
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B N P"], Int[Tensor, " B"]]:
    """The pieces of each sentence without the gaps between words; where each one went; how many there are."""
    real = (pieces != 0).flatten(1)
    lengths = real.sum(dim=1)
    longest = int(lengths.max()) if len(lengths) else 0
    place = torch.where(real, real.cumsum(dim=1) - 1, longest)  # padding goes one past the last piece
    tokens = F.pad(torch.zeros_like(pieces[:, 0, :1]).expand(-1, longest), (0, 1))
    tokens = tokens.scatter(1, place, pieces.flatten(1))[:, :longest]
    return tokens, place.clamp(max=max(0, longest - 1)).view(pieces.shape), lengths
