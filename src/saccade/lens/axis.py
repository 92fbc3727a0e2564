"""The tokens along one side of an attention, and the words they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from saccade.attention import Trace
from saccade.errors import OptionError, ShapeError, UnknownNameError, counted

__all__ = ["Axis", "Towers", "choose_axes", "is_cross_by_name", "why_numbered"]

#: Names of cross-attention in Saccade, in Marian and BART, and in T5.
_CROSS = ("cross", "encoder_attn", "encdecattention")
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

        Neighbouring tokens with the same number are pieces of one word, and a token without a number is a word of its
        own. Words are renumbered from 0, because both sentences of a pair start with word 0.
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
        """One string per word, without the marks that tokenizers put on pieces."""
        pieces: list[list[str]] = [[] for _ in range(self.num_words)]
        for token, word in zip(self.tokens, self.words, strict=True):
            pieces[word].append(token)
        return [_join(some) for some in pieces]

    def size(self, words: bool) -> int:
        return self.num_words if words else len(self)

    def labels(self, words: bool) -> list[str]:
        return self.joined if words else self.tokens


@dataclass(frozen=True)
class Towers:
    """The tokens of the parts of a model that each read a sequence of their own, by the names of these parts."""

    axes: Mapping[str, Axis]

    @classmethod
    def of(cls, tokens: Mapping[str, Sequence[str]], words: object, names: Iterable[str]) -> Towers:
        """Check that every tower has an attention, and that words are given by tower too."""
        if words is not None and (not isinstance(words, Mapping) or not set(words) <= set(tokens)):
            raise OptionError("If tokens has an entry per tower, words must be a mapping with some of the same names.")
        for tower in tokens:
            if not any(_is_in(name, tower) for name in names):
                raise UnknownNameError("part of the model with attention", tower, names)
        given = words if isinstance(words, Mapping) else {}
        return cls({tower: Axis.of(list(some), given.get(tower)) for tower, some in tokens.items()})

    def axes_of(self, name: str, trace: Trace) -> tuple[Axis | None, Axis | None]:
        """Return the tokens of an attention's own tower, and those of the tower that its keys come from."""
        own = max((tower for tower in self.axes if _is_in(name, tower)), key=len, default=None)
        if own is None:
            return None, None
        if trace.place is None or trace.place.source == "self":
            return self.axes[own], None
        others = [axis for tower, axis in self.axes.items() if tower != own and len(axis) == trace.shape[3]]
        return self.axes[own], others[0] if len(others) == 1 else Axis.positions(trace.shape[3])


def _is_in(name: str, tower: str) -> bool:
    return name == tower or name.startswith(f"{tower}.")


def choose_axes(name: str, trace: Trace, target: Axis | None, source: Axis | None) -> tuple[Axis, Axis]:
    """Return the tokens of rows and columns, chosen by the origin of the keys, by the name, or by their number."""
    num_rows, num_columns = trace.shape[2:]
    if target is None:
        positions = Axis.positions(num_rows)
        return positions, positions if num_columns == num_rows else Axis.positions(num_columns)
    place = trace.place
    if place is not None and not place.is_in_order:  # their labels would be those of other tokens
        return Axis.positions(num_rows), Axis.positions(num_columns)
    if (
        place is not None
        and place.extra
        and place.source == "self"
        and len(target) == num_rows == num_columns - len(place.extra)
    ):
        return target, _with_extra(target, place.extra)
    if place is not None and place.source == "unknown":
        rows = next((axis for axis in _rows_of_unknown(name, target, source) if len(axis) == num_rows), None)
        is_source = source is not None and len(target) != len(source) == num_columns and place.has_keys_in_order
        if rows is target and source is not None and is_source:
            return rows, source
        if rows is not None and (source is not None or num_rows == num_columns):
            return rows, Axis.positions(num_columns)
    for rows, columns in _possible(name, trace, target, source):
        if (len(rows), len(columns)) == (num_rows, num_columns):
            is_known = place is None or place.source != "cross" or place.has_keys_in_order
            return rows, columns if is_known else Axis.positions(num_columns)
    given = f"{len(target)} tokens" + ("" if source is None else f" and {len(source)} source tokens")
    hint = " Pass source_tokens for its columns." if source is None and num_rows == len(target) else ""
    raise ShapeError(
        f"The attention {name} has {num_rows} rows and {num_columns} columns, but {given} were given; every position "
        f"needs a token, including special tokens and padding.{hint}"
    )


def why_numbered(trace: Trace, columns: Axis) -> str | None:
    """Say why columns, or rows and columns, are numbered although tokens were given."""
    place = trace.place
    if place is None or columns != Axis.positions(len(columns)):
        return None
    if not place.is_in_order:
        return "rows and columns are numbered, because they are not the tokens of the text in their order"
    if place.source == "unknown" or not place.has_keys_in_order:
        return "columns are numbered, because it is not known which tokens its keys are"
    return None


def _rows_of_unknown(name: str, target: Axis, source: Axis | None) -> list[Axis]:
    """Return the tokens that its rows may be, if nothing tells what its keys are."""
    if source is None or "decoder" in name.lower():
        return [target]
    return [source] if "encoder" in name.lower() else [target, source]


def _with_extra(tokens: Axis, places: Sequence[int]) -> Axis:
    """Return the tokens with the keys that belong to none of them, such as learned ones, at these places."""
    labels, words = list(tokens.tokens), [*tokens.words]
    for number, place in enumerate(sorted(places)):
        labels.insert(place, f"extra key {number}")
        words.insert(place, -1 - number)  # a word of its own
    return Axis.of(labels, words)


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
