"""Vectors for words, from their own embedding, their subword pieces and their characters.

Pieces and characters also describe words that are not in the vocabulary.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention.tracing import is_exporting
from saccade.models.config import Config
from saccade.models.encoders import locked_dropout
from saccade.models.layers import WordEmbedding
from saccade.recurrent import Recurrent

__all__ = ["UNKNOWN_WORD", "CharacterReader", "ReaderConfig", "WordReader", "mean_of_pieces"]

#: The id of every word that is not in the vocabulary; 0 is padding.
UNKNOWN_WORD = 1


class ReaderConfig(Config):
    """The settings of the parts that are concatenated into a word's vector."""

    word_width: int = Field(128, ge=0, description="Width of a word's own embedding; 0 for none")
    word_dropout: float = Field(
        0.1, ge=0, lt=1, description="Fraction of words that are replaced by the unknown word in training"
    )
    piece_width: int = Field(0, ge=0, description="Width of the mean embedding of a word's pieces; 0 for none")
    spelling: Literal["none", "convolution", "recurrent"] = Field(
        "recurrent", description="What reads a word's characters: none, convolution or recurrent"
    )
    spelling_width: int = Field(128, ge=2, description="Width of the vector made from the characters; must be even")
    character_width: int = Field(48, ge=1, description="Width of a character's embedding")
    character_kernel: int = Field(5, ge=1, description="Number of characters that the convolution sees at once")

    @model_validator(mode="after")
    def _some_part(self) -> ReaderConfig:
        if not self.word_width and not self.piece_width and self.spelling == "none":
            raise ValueError("a word vector needs at least one of word_width, piece_width and spelling")
        if self.spelling_width % 2:
            raise ValueError(f"spelling_width must be even, half for each direction, not {self.spelling_width}")
        return self

    @property
    def reader_width(self) -> int:
        """The total width of all parts."""
        return self.word_width + self.piece_width + (self.spelling_width if self.spelling != "none" else 0)


class CharacterReader(nn.Module):
    """Turns the characters of a word into a vector.

    If ``spelling`` is "convolution", the vector has the maximum of each filter over all positions (dos Santos 2014); if
    it is "recurrent", the last state of an LSTM in each direction (Ling 2015). Marks for the beginning and the end of
    the word are added, because its ending is the most informative part.
    """

    def __init__(self, config: ReaderConfig, characters: int) -> None:
        super().__init__()
        self.begin, self.end = characters, characters + 1
        self.embedding = WordEmbedding(characters + 2, config.character_width, scaled=True)
        width, kernel = config.spelling_width, config.character_kernel
        self.network: nn.Conv1d | Recurrent
        if config.spelling == "convolution":
            self.network = nn.Conv1d(config.character_width, width, kernel, padding=kernel - 1)
        else:
            self.network = Recurrent("lstm", config.character_width, width // 2, bidirectional=True)

    def forward(self, characters: Int[Tensor, "B N C"]) -> Float[Tensor, "B N D"]:
        # Each distinct word is read only once, however often it occurs in the batch; an exported graph reads them all.
        words, place = characters.flatten(0, 1), slice(None)
        if not is_exporting():
            words, place = torch.unique(words, dim=0, return_inverse=True)
        counts = (words != 0).sum(dim=1)
        marked = F.pad(words, (1, 1))
        marked[:, 0] = self.begin
        marked.scatter_(1, counts[:, None] + 1, self.end)
        device = self.embedding.weight.device
        vectors = self.embedding(marked.to(device))
        if isinstance(self.network, nn.Conv1d):
            read = self._convolve(self.network, vectors, counts + 2)
        else:
            _, final = self.network(vectors, counts + 2)
            read = torch.cat([state[0] for state in final], dim=-1)
        found = read[place.to(device) if isinstance(place, Tensor) else place]
        return found.view(*characters.shape[:2], -1)

    def _convolve(
        self, network: nn.Conv1d, vectors: Float[Tensor, "M C I"], counts: Int[Tensor, " M"]
    ) -> Float[Tensor, "M D"]:
        counts = counts.to(vectors.device)
        padded = torch.arange(vectors.shape[1], device=vectors.device) >= counts[:, None]
        vectors = vectors.masked_fill(padded.unsqueeze(-1), 0.0)
        found = network(vectors.transpose(1, 2))  # (M, D, C + kernel - 1)
        ends = counts + network.kernel_size[0] - 1
        places = torch.arange(found.shape[2], device=vectors.device)
        return torch.relu(found.masked_fill((places >= ends[:, None])[:, None], float("-inf")).amax(dim=2))


class WordReader(nn.Module):
    """Computes a vector for each word of a sentence from the parts that the configuration selects."""

    def __init__(self, config: ReaderConfig, *, words: int, pieces: int, characters: int, dropout: float) -> None:
        super().__init__()
        self.config = config
        self.dropout = dropout
        self.words = WordEmbedding(words, config.word_width) if config.word_width else None
        self.pieces = WordEmbedding(pieces, config.piece_width) if config.piece_width else None
        self.characters = CharacterReader(config, characters) if config.spelling != "none" else None

    def forward(
        self, words: Int[Tensor, "B N"], pieces: Int[Tensor, "B N P"], characters: Int[Tensor, "B N C"]
    ) -> Float[Tensor, "B N D"]:
        parts = []
        if self.words is not None:
            parts.append(self.words(self._some_unknown(words)))
        if self.pieces is not None:
            parts.append(mean_of_pieces(self.pieces(pieces.to(words.device)), pieces))
        if self.characters is not None:
            parts.append(self.characters(characters))
        return locked_dropout(torch.cat(parts, dim=-1), self.dropout, self.training)

    def _some_unknown(self, words: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
        """Replace some words by the unknown word in training, so that the network learns to handle it."""
        if not self.training or not self.config.word_dropout:
            return words
        hidden = torch.rand(words.shape, device=words.device) < self.config.word_dropout
        return words.masked_fill(hidden & (words != 0), UNKNOWN_WORD)


def mean_of_pieces(vectors: Float[Tensor, "B N P D"], pieces: Int[Tensor, "B N P"]) -> Float[Tensor, "B N D"]:
    """The mean over the pieces of each word; zeros for a word without pieces."""
    real = (pieces.to(vectors.device) != 0).unsqueeze(-1)
    total = vectors.masked_fill(~real, 0.0).sum(dim=2)
    return total / real.sum(dim=2).clamp(min=1)
