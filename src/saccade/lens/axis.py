"""The tokens along one side of an attention, and the words they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from saccade.attention import Trace
from saccade.errors import ShapeError

__all__ = ["Axis", "choose_axes"]

#: Names of cross-attention in Saccade, in Marian and BART, and in T5.
_CROSS = ("cross", "encoder_attn", "encdecattention")
_STARTS = ("▁", "Ġ")  # marks the first piece of a word: SentencePiece, byte-level BPE
_CONTINUATION = "##"  # marks every piece but the first: WordPiece
_CONTINUED = "@@"  # marks every piece but the last: subword-nmt


@dataclass(frozen=True)
class Axis:
    """Tokens, each with the number of its word, counted from 0."""

    tokens: list[str]
    words: list[int]

    @classmethod
    def of(cls, tokens: Sequence[str], words: Sequence[int | None] | None = None) -> Axis:
        """Make an axis from tokens and the number of each token's word, as Hugging Face's ``word_ids()`` returns it.

        Neighbouring tokens with the same number are pieces of one word, and a token without a number is a word of its
        own. Words are renumbered from 0, because both sentences of a pair start with word 0.
        """
        if words is None:
            return cls(list(tokens), list(range(len(tokens))))
        if len(words) != len(tokens):
            raise ShapeError(f"There are {len(tokens)} tokens but {len(words)} word numbers; each token needs one.")
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
        """One string per word, without the marks that tokenizers put on pieces."""
        pieces: list[list[str]] = [[] for _ in range(self.num_words)]
        for token, word in zip(self.tokens, self.words, strict=True):
            pieces[word].append(token)
        return [_join(some) for some in pieces]

    def size(self, words: bool) -> int:
        return self.num_words if words else len(self)

    def labels(self, words: bool) -> list[str]:
        return self.joined if words else self.tokens


def choose_axes(name: str, trace: Trace, target: Axis | None, source: Axis | None) -> tuple[Axis, Axis]:
    """Return the tokens of rows and columns, chosen by the origin of the keys, by the name, or by their number."""
    num_rows, num_columns = trace.shape[2:]
    if target is None:
        positions = Axis.positions(num_rows)
        return positions, positions if num_columns == num_rows else Axis.positions(num_columns)
    for rows, columns in _possible(name, trace, target, source):
        if (len(rows), len(columns)) == (num_rows, num_columns):
            return rows, columns
    given = f"{len(target)} tokens" + ("" if source is None else f" and {len(source)} source tokens")
    hint = " Pass source_tokens for its columns." if source is None and num_rows == len(target) else ""
    raise ShapeError(
        f"The attention {name} has {num_rows} rows and {num_columns} columns, but {given} were given; every position "
        f"needs a token, including special tokens and padding.{hint}"
    )


def is_cross_by_name(name: str) -> bool:
    """Return whether the name of an attention says that its keys come from another sequence."""
    return any(part in name.lower() for part in _CROSS)


def _possible(name: str, trace: Trace, target: Axis, source: Axis | None) -> list[tuple[Axis, Axis]]:
    is_across = trace.place is not None and trace.place.source == "cross"
    if source is None:
        return [] if is_across else [(target, target)]
    if is_across or (trace.place is None and is_cross_by_name(name)):
        return [(target, source)]
    across = [(target, source)] if trace.place is None or trace.place.source == "unknown" else []
    if "decoder" in name.lower():
        return [(target, target), *across]
    if "encoder" in name.lower():
        return [(source, source)]
    return [(target, target), (source, source), *across]


def _join(pieces: Sequence[str]) -> str:
    first, *rest = pieces
    for mark in _STARTS:
        first = first.removeprefix(mark) or ("" if rest else first)  # the mark alone may be a piece
    parts = [first, *(piece.removeprefix(_CONTINUATION) for piece in rest)]
    return "".join([*(part.removesuffix(_CONTINUED) for part in parts[:-1]), parts[-1]])
