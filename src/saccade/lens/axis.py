"""The tokens along one side of an attention, and the words that they are pieces of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from saccade.attention import Trace
from saccade.errors import ShapeError

__all__ = ["Axis", "choose_axes"]

#: How attentions over another sequence are called: ours, Marian's and BART's, T5's.
_CROSS = ("cross", "encoder_attn", "encdecattention")
_STARTS = ("▁", "Ġ")  # a piece that begins a word: SentencePiece, byte-level BPE
_GOES_ON = "##"  # a piece that does not: WordPiece
_TO_BE_CONTINUED = "@@"  # a piece that is not the last: subword-nmt


@dataclass(frozen=True)
class Axis:
    """Tokens, each with the number of its word, counted from 0; where tokens are words, 0, 1, 2, ..."""

    tokens: list[str]
    words: list[int]

    @classmethod
    def of(cls, tokens: Sequence[str], words: Sequence[int | None] | None = None) -> Axis:
        """Tokens with the word of each, as ``word_ids()`` of Hugging Face gives them.

        Tokens beside each other that have the same number are pieces of one word; a token without a number is a
        word of its own. The words are counted anew from 0, because two sentences of a pair both begin with 0.
        """
        if words is None:
            return cls(list(tokens), list(range(len(tokens))))
        if len(words) != len(tokens):
            raise ShapeError(f"There are {len(tokens)} tokens but {len(words)} words of them; one is needed for each.")
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
        """One string a word, without the marks that tell where a piece begins or goes on."""
        pieces: list[list[str]] = [[] for _ in range(self.num_words)]
        for token, word in zip(self.tokens, self.words, strict=True):
            pieces[word].append(token)
        return [_join(some) for some in pieces]

    def size(self, words: bool) -> int:
        return self.num_words if words else len(self)

    def labels(self, words: bool) -> list[str]:
        return self.joined if words else self.tokens


def choose_axes(name: str, trace: Trace, target: Axis | None, source: Axis | None) -> tuple[Axis, Axis]:
    """The tokens of an attention's rows and columns: by where its keys came from or its name, else by their number."""
    num_rows, num_columns = trace.shape[2:]
    if target is None:
        positions = Axis.positions(num_rows)
        return positions, positions if num_columns == num_rows else Axis.positions(num_columns)
    for rows, columns in _possible(name, trace, target, source):
        if (len(rows), len(columns)) == (num_rows, num_columns):
            return rows, columns
    given = f"{len(target)} tokens" + ("" if source is None else f" and {len(source)} source tokens")
    hint = " Pass source_tokens for what its columns are." if source is None and num_rows == len(target) else ""
    raise ShapeError(
        f"The attention {name} has {num_rows} rows and {num_columns} columns, but {given} were given; every position "
        f"needs its token, also the first, the last and padding.{hint}"
    )


def looks_elsewhere(name: str) -> bool:
    """Whether the name of an attention says that its keys are another sequence."""
    return any(part in name.lower() for part in _CROSS)


def _possible(name: str, trace: Trace, target: Axis, source: Axis | None) -> list[tuple[Axis, Axis]]:
    is_across = trace.place is not None and trace.place.source == "cross"
    if source is None:
        return [] if is_across else [(target, target)]
    if is_across or (trace.place is None and looks_elsewhere(name)):
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
        first = first.removeprefix(mark) or ("" if rest else first)  # a mark may be a piece of its own
    parts = [first, *(piece.removeprefix(_GOES_ON) for piece in rest)]
    return "".join([*(part.removesuffix(_TO_BE_CONTINUED) for part in parts[:-1]), parts[-1]])
