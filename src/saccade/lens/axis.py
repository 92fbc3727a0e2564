"""The tokens along one side (rows or columns) of an attention matrix, and the words they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from saccade.errors import ShapeError, counted

__all__ = ["Axis", "is_cross_by_name"]

#: Names of cross-attention in Saccade, in Marian and BART, in T5, and of learned queries that pool a text.
_CROSS = ("cross", "encoder_attn", "encdecattention", "pooling")
_STARTS = ("▁", "Ġ")  # marks the first piece of a word: SentencePiece, byte-level BPE
_CONTINUATION = "##"  # marks every piece but the first: WordPiece
_CONTINUED = "@@"  # marks every piece but the last: subword-nmt


@dataclass(frozen=True)
class Axis:
    """Tokens, each with the number of its word; words are numbered from 0."""

    tokens: list[str]
    words: list[int]

    @classmethod
    def of(cls, tokens: Sequence[str], words: Sequence[int | None] | None = None) -> Axis:
        """Make an axis from tokens and the number of each token's word, as Hugging Face's ``word_ids()`` returns it.

        Neighbouring tokens with the same number are pieces of a word; a token without a number is a separate word.
        Words are renumbered from 0, because both sentences of a pair start with word 0.
        """
        if words is None:
            return cls(list(tokens), list(range(len(tokens))))
        if len(words) != len(tokens):
            raise ShapeError(
                f"tokens has {counted(len(tokens), 'entry', 'entries')} but words has {len(words)}; each "
                "token needs a word number."
            )
        numbers = [0] if tokens else []
        for before, word in pairwise(words):
            numbers.append(numbers[-1] + (word is None or word != before))
        return cls(list(tokens), numbers)

    @classmethod
    def positions(cls, count: int) -> Axis:
        return cls.of([str(position) for position in range(count)])

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def num_words(self) -> int:
        return self.words[-1] + 1 if self.words else 0

    @property
    def joined(self) -> list[str]:
        """One string per word, made of its pieces without the marks that tokenizers put on them."""
        pieces: list[list[str]] = [[] for _ in range(self.num_words)]
        for token, word in zip(self.tokens, self.words, strict=True):
            pieces[word].append(token)
        return [_join(some) for some in pieces]

    def size(self, words: bool) -> int:
        return self.num_words if words else len(self)

    def labels(self, words: bool) -> list[str]:
        return self.joined if words else self.tokens


def is_cross_by_name(name: str) -> bool:
    """Return whether the name of an attention layer says that it is cross-attention, whose keys come from another
    sequence than its queries."""
    return any(part in name.lower() for part in _CROSS)


def _join(pieces: Sequence[str]) -> str:
    first, *rest = pieces
    for mark in _STARTS:
        first = first.removeprefix(mark) or ("" if rest else first)  # the mark alone may be a piece
    parts = [first, *(piece.removeprefix(_CONTINUATION) for piece in rest)]
    return "".join([*(part.removesuffix(_CONTINUED) for part in parts[:-1]), parts[-1]])
