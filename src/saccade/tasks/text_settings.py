"""How text becomes tokens: what the ``[text]`` tables of most tasks share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from saccade.models import Config
from saccade.text import Tokenizer

__all__ = ["TokenKind", "TokenSettings"]

TokenKind = Literal["bpe", "word", "character", "byte"]


class TokenSettings(Config):
    """How text becomes tokens: the ``[text]`` table of a recipe."""

    kind: TokenKind = "bpe"  # what a token is: a piece of a word, a word, ...
    vocabulary: int = 8000  # the most tokens
    lowercase: bool = False  # all text
    min_frequency: int = 1  # a character, word or pair of pieces that is rarer gets no token of its own

    def train(self, texts: Sequence[str]) -> Tokenizer:
        """A tokenizer of these texts."""
        return Tokenizer.train(
            texts,
            self.kind,
            vocabulary_size=self.vocabulary,
            lowercase=self.lowercase,
            min_frequency=self.min_frequency,
        )
