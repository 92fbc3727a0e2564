"""Choose the tokens that label the rows and columns of each attention.

A token is shown as a label only where it is known to be the right one. For an attention that ``watch`` recorded in a
model of another library, ``Trace.place`` tells which inputs its queries and keys were computed from. For weights that a
model returned, and for Saccade's own layers, it is inferred from names and lengths. Positions that none of the given
tokens fit are labelled with numbers, and a note says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from saccade.attention import Trace
from saccade.attention.watching.trace import Place
from saccade.errors import OptionError, ShapeError, UnknownNameError
from saccade.lens.axis import Axis, is_cross_by_name
from saccade.lens.given import GivenTrace

__all__ = ["AxisLabels", "Tokens", "label"]

WordNumbers = Sequence[int | None]
#: Which sequence an attention's rows are: that of ``tokens``, that of ``source_tokens``, or unknown.
Side = Literal["target", "source"] | None

MOVED = "rows and columns are numbered, because they are not the tokens of the text in their order"
MOVED_ROWS = "rows are numbered, because they are not the tokens of the text in their order"
UNKNOWN_KEYS = "columns are numbered, because it is not known which tokens its keys are"
NO_TEXT = "rows and columns are numbered, because its rows are not the tokens of the text"
NO_SOURCE = "{} numbered, because source_tokens were not given"
OTHER_LENGTH = "rows and columns are numbered, because {} were given, but it has {} rows and {} columns"


class AxisLabels(NamedTuple):
    """The labels of the rows and columns of each attention, and notes on why some are only numbers."""

    axes: dict[str, tuple[Axis, Axis]]
    notes: dict[str, str]


class _Fit(NamedTuple):
    rows: Axis | None  # None: numbered
    columns: Axis | None
    note: str | None = None
    is_other_length: bool = False  # whether the tokens that would label it have other lengths


class Tokens(NamedTuple):
    """The tokens that were passed to ``view`` as labels, with the words that they belong to."""

    target: Axis | None
    source: Axis | None
    towers: dict[str, Axis]  # by the name of the part of the model that reads them

    @classmethod
    def of(
        cls,
        tokens: Sequence[str] | Mapping[str, Sequence[str]] | None,
        source_tokens: Sequence[str] | None,
        words: WordNumbers | Mapping[str, WordNumbers] | None,
        source_words: WordNumbers | None,
    ) -> Tokens:
        """Collect the arguments of ``view`` about tokens and words, or raise an error if they contradict each other."""
        if tokens is None and not (source_tokens is None and words is None and source_words is None):
            raise OptionError("source_tokens, words and source_words can only be given together with tokens.")
        if source_tokens is None and source_words is not None:
            raise OptionError("source_words can only be given together with source_tokens.")
        source = None if source_tokens is None else Axis.of(source_tokens, source_words)
        if not isinstance(tokens, Mapping):
            if isinstance(words, Mapping):
                raise OptionError("words can be a mapping only if tokens is one.")
            return cls(None if tokens is None else Axis.of(tokens, words), source, {})
        if source is not None:
            raise OptionError(
                "If tokens is a mapping, leave out source_tokens, and give the encoder's tokens as an entry of tokens."
            )
        if words is not None and (not isinstance(words, Mapping) or not set(words) <= set(tokens)):
            raise OptionError(
                "If tokens is a mapping, words must be a mapping too, and have no names that tokens lacks."
            )
        given = words if isinstance(words, Mapping) else {}
        return cls(None, None, {tower: Axis.of(list(some), given.get(tower)) for tower, some in tokens.items()})

    @property
    def have_equal_lengths(self) -> bool:
        return self.source is not None and self.target is not None and len(self.source) == len(self.target)

    @property
    def counted(self) -> str:
        source = "" if self.source is None else f" and {len(self.source)} source tokens"
        return f"{0 if self.target is None else len(self.target)} tokens{source}"


def label(traces: Mapping[str, Trace], given: Tokens) -> AxisLabels:
    """Return labels for the rows and columns of every attention: the given tokens where they fit, otherwise numbers."""
    for tower in given.towers:
        if not any(_is_in(name, tower) for name in traces):
            raise UnknownNameError("part of the model with attention", tower, traces)
    sides, has_text = _sides(traces, given.source is not None), any(_has_text(trace.place) for trace in traces.values())
    axes, notes, fits = {}, {}, {}
    for name, trace in traces.items():
        own = _of_tower(name, trace, given) if given.towers else given
        is_other = has_text and not given.towers and trace.place is not None and not trace.place.is_text
        fit = fits[name] = _fit(name, trace, own, sides[name], is_other)
        rows, columns = trace.shape[2:]
        axes[name] = fit.rows or Axis.positions(rows), fit.columns or Axis.positions(columns)
        if fit.note is not None:
            notes[name] = fit.note
    _check_used(traces, given, fits)
    if given.target is not None:
        _check_one_sequence(traces, [name for name, fit in fits.items() if fit.rows is given.target])
    return AxisLabels(axes, notes)


def _fit(name: str, trace: Trace, given: Tokens, side: Side, is_other: bool) -> _Fit:
    """Choose the tokens of one attention."""
    target, source, _ = given
    num_rows, num_columns = trace.shape[2:]
    if target is None:
        return _Fit(None, None)
    place = trace.place
    if place is not None and not place.is_in_order:  # tokens would label the wrong rows
        has_columns = place.source == "cross" and place.has_keys_in_order and source is not None
        if has_columns and len(source or ()) == num_columns:
            return _Fit(None, source, MOVED_ROWS)
        return _Fit(None, None, MOVED)
    if isinstance(trace, GivenTrace) and trace.is_band:
        rows = next((axis for axis in (target, source) if axis is not None and len(axis) == num_rows), None)
        return _Fit(rows, None)
    if is_other and side != "source":
        return _Fit(None, None, NO_TEXT)
    if side == "source" and source is None:
        return _Fit(None, None, NO_SOURCE.format("rows and columns are"))
    if place is not None and place.source == "unknown":
        keys = source if place.has_keys_in_order else None
        return _fit_unknown(target, source, keys, side, (num_rows, num_columns), given)
    extra = place.extra if place is not None and place.source == "self" else ()
    if extra and len(target) == num_rows == num_columns - len(extra):
        return _Fit(target, _with_extra(target, extra))
    for rows, columns in _possible(name, trace, target, source, side):
        if (len(rows), len(columns)) == (num_rows, num_columns):
            is_known = place is None or place.source != "cross" or place.has_keys_in_order
            return _Fit(rows, columns) if is_known else _Fit(rows, None, UNKNOWN_KEYS)
    if source is None and len(target) == num_rows and _is_across(name, trace):
        return _Fit(target, None, NO_SOURCE.format("columns are"))
    return _Fit(None, None, OTHER_LENGTH.format(given.counted, num_rows, num_columns), is_other_length=True)


def _fit_unknown(
    target: Axis, source: Axis | None, keys: Axis | None, side: Side, size: tuple[int, int], given: Tokens
) -> _Fit:
    """Choose the tokens of an attention if the origin of its keys is unknown."""
    may_be: list[Axis | None] = [target] if side == "target" else [source] if side == "source" else [target, source]
    rows = next((axis for axis in may_be if axis is not None and len(axis) == size[0]), None)
    if rows is None:
        return _Fit(None, None, OTHER_LENGTH.format(given.counted, *size), is_other_length=True)
    if rows is target and keys is not None and len(target) != len(keys) == size[1]:
        return _Fit(rows, keys)
    return _Fit(rows, None, UNKNOWN_KEYS)


def _possible(name: str, trace: Trace, target: Axis, source: Axis | None, side: Side) -> Iterator[tuple[Axis, Axis]]:
    """Yield the tokens that may belong to the rows and the columns, the most likely first."""
    if _is_across(name, trace):
        if source is not None:
            yield target, source
        return
    if side != "source":
        yield target, target
    if source is None:
        return
    if side != "target":
        yield source, source
    if trace.place is None and side != "source":
        yield target, source


def _is_across(name: str, trace: Trace) -> bool:
    return is_cross_by_name(name) if trace.place is None else trace.place.source == "cross"


def _has_text(place: Place | None) -> bool:
    return place is not None and (place.is_text or place.has_text_keys)


def _sides(traces: Mapping[str, Trace], has_source: bool) -> dict[str, Side]:
    """Return whether the rows of each attention are the source or the target, as far as cross-attentions or names show
    it.

    The rows of a cross-attention are the target. So are the rows of every attention that comes before or after it on
    the path of its queries.
    """
    places = {name: trace.place for name, trace in traces.items()}
    across = [place for place in places.values() if place is not None and place.source == "cross"]
    numbers = frozenset(place.number for place in across)
    before = frozenset[int]().union(*(place.before for place in across))
    has_source = has_source or any(_is_across(name, trace) for name, trace in traces.items())
    found: dict[str, Side] = {}
    for name, place in places.items():
        if place is not None and across:
            is_target = place.number in numbers | before or not place.before.isdisjoint(numbers)
            found[name] = "target" if is_target else "source"
        else:
            found[name] = _side_by_name(name, has_source)
    return found


def _side_by_name(name: str, has_source: bool) -> Side:
    if "decoder" in name.lower() or is_cross_by_name(name):
        return "target"
    return "source" if "encoder" in name.lower() and has_source else None


def _of_tower(name: str, trace: Trace, given: Tokens) -> Tokens:
    """Return the tokens of an attention's own tower, and those of the tower that its keys come from."""
    own = max((tower for tower in given.towers if _is_in(name, tower)), key=len, default=None)
    if own is None:
        return Tokens(None, None, {})
    if trace.place is None or trace.place.source == "self":
        return Tokens(given.towers[own], None, {})
    others = [axis for tower, axis in given.towers.items() if tower != own and len(axis) == trace.shape[3]]
    return Tokens(given.towers[own], others[0] if len(others) == 1 else None, {})


def _is_in(name: str, tower: str) -> bool:
    return name == tower or name.startswith(f"{tower}.")


def _check_used(traces: Mapping[str, Trace], given: Tokens, fits: Mapping[str, _Fit]) -> None:
    """Raise an error if a list of tokens fits no attention, because some tokens are probably missing."""
    parts: dict[str, Axis | None] = {**given.towers} or {"": given.target, "source": given.source}
    for tower, axis in parts.items():
        mine = {name: fit for name, fit in fits.items() if not given.towers or _is_in(name, tower)}
        is_used = any(part is axis for fit in mine.values() for part in (fit.rows, fit.columns))
        wrong = next((name for name, fit in mine.items() if fit.is_other_length), None)
        if axis is None or is_used or wrong is None:
            continue
        counted = f"{len(axis)} tokens" if given.towers else given.counted
        raise ShapeError(
            f"The attention {wrong} has {traces[wrong].shape[2]} rows and {traces[wrong].shape[3]} columns, but "
            f"{counted} were given; every position needs a token, including special tokens and padding."
        )


def _check_one_sequence(traces: Mapping[str, Trace], names: Sequence[str]) -> None:
    """Refuse one list of tokens for two sequences that happen to be of the same length."""
    placed = {name: place.inputs for name in names if (place := traces[name].place) is not None and place.inputs}
    firsts: dict[frozenset[int], str] = {}
    for name, inputs in placed.items():
        firsts.setdefault(inputs, name)
    for one, other in combinations(firsts, 2):
        if one - other and other - one:
            raise OptionError(
                f"{firsts[one]} and {firsts[other]} read different inputs of the same length, so one list of tokens "
                'cannot label both; give a mapping from parts of the model to tokens, such as {"text_model": tokens}.'
            )


def _with_extra(tokens: Axis, places: Sequence[int]) -> Axis:
    """Return the tokens, with labels inserted at the places of keys that belong to no token, such as learned keys."""
    labels, words = list(tokens.tokens), [*tokens.words]
    for number, place in enumerate(sorted(places)):
        labels.insert(place, f"extra key {number}")
        words.insert(place, -1 - number)  # a separate word
    return Axis.of(labels, words)
