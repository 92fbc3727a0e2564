"""How text becomes tokens: what the ``[text]`` tables of most tasks share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from saccade.models import Config
from saccade.text import Tokenizer

__all__ = ["TokenKind", "TokenSettings"]

TokenKind = Literal["bpe", "word", "character", "byte"]


class TokenSettings(Config):
    """How text becomes tokens."""

    kind: TokenKind = Field("bpe", description="What a token is: bpe (a piece of a word), word, character or byte")
    vocabulary: int = Field(8000, description="Largest number of tokens")
    lowercase: bool = Field(False, description="Lower-case all text")
    min_frequency: int = Field(1, description="A rarer character, word or pair of pieces gets no token of its own")

    def train(self, texts: Sequence[str]) -> Tokenizer:
        """A tokenizer trained on these texts."""
        return Tokenizer.train(
            texts,
            self.kind,
            vocabulary_size=self.vocabulary,
            lowercase=self.lowercase,
            min_frequency=self.min_frequency,
        )
