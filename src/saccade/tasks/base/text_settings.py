"""The settings that the ``[text]`` tables of most tasks share: how text is split into tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from saccade.models import Config
from saccade.text import Tokenizer

__all__ = ["TokenKind", "TokenSettings"]

TokenKind = Literal["bpe", "word", "character", "byte"]


class TokenSettings(Config):
    """How text is split into tokens."""

    kind: TokenKind = Field("bpe", description="What a token is: bpe (a piece of a word), word, character or byte")
    vocabulary: int = Field(8000, description="Maximum size of the vocabulary")
    lowercase: bool = Field(False, description="Lower-case all text")
    min_frequency: int = Field(
        1, description="Leave out characters, words or pairs of pieces that occur fewer times than this"
    )

    def train(self, texts: Iterable[str]) -> Tokenizer:
        """Train a tokenizer on these texts."""
        return Tokenizer.train(
            texts,
            self.kind,
            vocabulary_size=self.vocabulary,
            lowercase=self.lowercase,
            min_frequency=self.min_frequency,
        )
