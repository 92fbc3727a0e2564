"""Traces with the tokens on both axes: what every picture is made from.

    with saccade.watch(model) as seen:
        model(**inputs)
    saccade.view(seen, tokens)

    saccade.view(model(**inputs, output_attentions=True), tokens)  # a model that writes its attention out itself

Nothing is computed until it is asked for, and every number that is shown is an exact weight of a trace, or says what
it is made of.
"""

from __future__ import annotations

import html
import inspect
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import safetensors.torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.attention import KeyWeight, Overview, Trace, Watch
from saccade.attention.watching.coverage import Coverage
from saccade.attention.watching.foreign.steps import Gap
from saccade.attention.watching.overview import Progress, Reduce
from saccade.attention.watching.trace import WEIGHTS_LIMIT
from saccade.errors import FileError, OptionError, SaccadeError, ShapeError, TooLargeError, UnknownNameError
from saccade.lens import measures
from saccade.lens.axis import Axis, choose_axes, looks_elsewhere
from saccade.lens.files import write_file
from saccade.lens.given import given_traces
from saccade.lens.links import WordLink
from saccade.lens.stacks import find_stacks
from saccade.lens.words import merge

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

__all__ = ["Axis", "DifferenceView", "Head", "View", "view"]

#: A head by its number, or the mean or maximum over all heads of the attention.
Head = int | Literal["mean", "max"]
Kind = Literal["self", "causal", "cross", "unknown"]
_REDUCTIONS = get_args(Reduce)
_KIND_ROWS = 8  # rows that are looked at to tell whether an attention is causal
_NUMBER_SUFFIXES = (".npy", ".safetensors")


@dataclass(frozen=True)
class DifferenceView:
    """The weights of one input less those of another, between the tokens that both have."""

    values: Float[Tensor, "Q K"]
    rows: list[str]
    columns: list[str]
    row_pairs: list[tuple[int, int]]  # where each row stands in the one and in the other
    column_pairs: list[tuple[int, int]]


class Frame(str):
    """HTML that a notebook shows."""

    def _repr_html_(self) -> str:
        return self


@dataclass(frozen=True, repr=False)
class View:
    """Attention with its tokens. Rows are queries, columns are keys, both counted from 0."""

    traces: Mapping[str, Trace]
    rows: Mapping[str, Axis]
    columns: Mapping[str, Axis]
    batch: int = 0
    gold: frozenset[WordLink] | None = None  # the true links of words, as (column, row)
    gaps: tuple[Gap, ...] = ()  # attentions that ran beside these and cannot be shown
    notes: Mapping[str, str] = field(default_factory=dict)  # what must be said of an attention wherever it is shown
    coverage: Coverage | None = None  # what was seen of the model, refused, or not seen; None where nobody can tell

    @property
    def names(self) -> list[str]:
        return list(self.traces)

    @property
    def left_out(self) -> list[str]:
        """What a picture of all attentions must say: how many of the model's are not in the view."""
        if self.coverage is None or self.coverage.is_complete:
            return []
        lost = len(self.coverage.refused) + len(self.coverage.unseen)
        counted = f"{lost} more {'attention' if lost == 1 else 'attentions'} of the model not shown"
        return [*([counted] if lost else []), *self.coverage.notes]

    def heads(self, name: str) -> int:
        return self._trace(name).shape[1]

    def describe(self, name: str, head: Head) -> str:
        """An attention and which of its heads, with what must be said of it: the title of a picture that has none."""
        count = self.heads(name)
        said = f"{name}, head {head}" if isinstance(head, int) else f"{name}, {head} of {count} heads"
        if count == 1 and not isinstance(head, int):
            said = name
        return f"{said} ({self.notes[name]})" if name in self.notes else said

    def kind(self, name: str) -> Kind:
        """Of other keys: "cross". Of its own: "causal" if no query has a weight for what follows it, else "self".

        "unknown" where nothing tells whose keys they are.
        """
        trace = self._trace(name)
        if not self.is_self(name):
            return "unknown" if trace.place is not None and trace.place.source == "unknown" else "cross"
        size = trace.shape[2]
        looked_at = range(0, size - 1, max(1, size // _KIND_ROWS))
        ahead = (trace.row(row, batch=self.batch)[:, row + 1 :].any() for row in looked_at)
        return "causal" if len(looked_at) and not any(map(bool, ahead)) else "self"

    def axes(self, name: str) -> tuple[Axis, Axis]:
        """Its rows and its columns."""
        self._trace(name)
        return self.rows[name], self.columns[name]

    def is_self(self, name: str) -> bool:
        """Whether its rows and columns are the same sequence: of watched models, by where the keys came from."""
        rows, columns = self.axes(name)
        place = self.traces[name].place
        is_own = not looks_elsewhere(name) if place is None else place.source == "self"
        return is_own and rows == columns

    @property
    def stacks(self) -> dict[str, list[str]]:
        """The self-attentions that follow each other, by their names with * for the layer: ``encoder.*.self``.

        Layers of other lengths are stacks of their own: ``encoder.*.self of 4 tokens``. A stack in which an attention
        is missing is not among them (``broken_stacks``). What cross-attentions bring in is in no rollout.
        """
        return find_stacks(self.traces, self.is_self, self.gaps).whole

    @property
    def broken_stacks(self) -> dict[str, str]:
        """Why other self-attentions have no rollout, by the names of their stacks."""
        return find_stacks(self.traces, self.is_self, self.gaps).broken

    # --- weights -------------------------------------------------------------------------------------------

    def tile(self, name: str, head: Head, rows: slice | range, columns: slice | range) -> Float[Tensor, "Q K"]:
        """The exact weights of a part, between tokens."""
        return self._over_heads(name, head, lambda one: one, rows, columns)

    def matrix(self, name: str, head: Head = "mean", *, words: bool = False) -> Float[Tensor, "Q K"]:
        """All the weights of one head, or of all its heads together, between tokens or between words."""
        return self._over_heads(name, head, self._merging(name, words), slice(None), slice(None))

    def row(self, name: str, row: int, *, words: bool = False) -> Float[Tensor, "H K"]:
        """What one token, or one word, takes from each key: a row a head."""
        trace, axis = self._trace(name), self.rows[name]
        count = axis.size(words)
        if not -count <= row < count:
            raise ShapeError(f"There is no row {row} in {name}; there are {count}, counted from 0.")
        if not words:
            return trace.row(row, batch=self.batch)
        pieces = [place for place, word in enumerate(axis.words) if word == row % count]
        tile = trace.tile(range(pieces[0], pieces[-1] + 1), slice(None), batch=self.batch)
        return merge(tile.double(), [0] * len(pieces), self.columns[name].words).squeeze(-2).to(tile.dtype)

    def one_row(self, name: str, row: int, head: Head = "mean", *, words: bool = False) -> Float[Tensor, " K"]:
        """The same of one head, or of all as their mean or maximum."""
        every = self.row(name, row, words=words)
        self._check_head(head)
        if isinstance(head, int):
            if not -len(every) <= head < len(every):
                raise ShapeError(f"There is no head {head}; there are {len(every)}, counted from 0.")
            return every[head]
        return measures.reduce_heads(iter(every), head)

    def top(self, name: str, row: int, k: int = 5, head: Head = "mean", *, words: bool = False) -> list[KeyWeight]:
        """The k keys that one query takes most from, the strongest first: (column, weight)."""
        if k < 1:
            raise OptionError(f"top() takes k of at least 1, not {k}.")
        weights = self.one_row(name, row, head, words=words)
        best = weights.topk(min(k, len(weights)))
        return [KeyWeight(int(place), float(weight)) for place, weight in zip(best.indices, best.values, strict=True)]

    def overview(
        self,
        name: str,
        head: Head = "mean",
        size: int = 512,
        reduce: Reduce | None = None,
        progress: Progress | None = None,
    ) -> Overview:
        """A long attention as a picture of at most size×size cells, each the mean or maximum of its weights.

        Of all heads together, the mean has cells that are means, the maximum cells that are maxima; ``reduce`` can
        be chosen for one head, and is "max" if not given, because single strong links are what is looked for.
        """
        trace = self._trace(name)
        if isinstance(head, int):
            return trace.overview(size, reduce or "max", head=head, batch=self.batch, progress=progress)
        self._check_head(head)
        if reduce not in (None, head):
            raise OptionError(f"The overview of the {head} of all heads has cells that are its {head}, not {reduce!r}.")
        num_heads = self.heads(name)
        found: list[Overview] = []
        for number in range(num_heads):
            part = progress and share(progress, number, num_heads)
            found.append(trace.overview(size, head, head=number, batch=self.batch, progress=part))
        values = measures.reduce_heads((one.values for one in found), head)
        return Overview(values, found[0].cell, head, exact=True)

    # --- what is computed from them ------------------------------------------------------------------------

    def rollout(
        self, stack: str | None = None, heads: Literal["mean", "max"] = "mean", *, words: bool = False
    ) -> Float[Tensor, "N N"]:
        """How much of each token reaches each output of a stack of self-attentions (see ``measures.rollout``).

        ``stack`` is a name of ``stacks``; if not given, the first: of an encoder and a decoder, the encoder.
        """
        stack = self._stack(stack)
        self._check_head(heads)
        names = self.stacks[stack]
        flow = measures.rollout([self.matrix(name, heads) for name in names])
        return self._merging(names[-1], words)(flow)

    def entropy(self, name: str, progress: Progress | None = None) -> Float[Tensor, " H"]:
        """The entropy of each head in bits, the mean over its rows."""
        return measures.entropy(self._trace(name), batch=self.batch, padding=self._padding(name), progress=progress)

    def distance(self, name: str, progress: Progress | None = None) -> Float[Tensor, " H"]:
        """How many tokens away each head looks, the mean over its rows; of self-attentions only."""
        if not self.is_self(name):
            raise OptionError(f"A distance is between tokens of one sequence; {name} looks from one to another.")
        return measures.distance(self._trace(name), batch=self.batch, padding=self._padding(name), progress=progress)

    def difference(self, other: View, name: str, head: Head = "mean", *, words: bool = False) -> DifferenceView:
        """These weights less those of another input, where the tokens of both are the same; the others are dropped."""
        matrices = [side.matrix(name, head, words=words) for side in (self, other)]
        row_pairs = measures.matching(self.rows[name].labels(words), other.rows[name].labels(words))
        column_pairs = measures.matching(self.columns[name].labels(words), other.columns[name].labels(words))
        parts = []
        for side, matrix in enumerate(matrices):
            rows, columns = ([pair[side] for pair in pairs] for pairs in (row_pairs, column_pairs))
            parts.append(matrix[rows][:, columns])
        return DifferenceView(
            parts[0] - parts[1],
            [self.rows[name].labels(words)[row] for row, _ in row_pairs],
            [self.columns[name].labels(words)[column] for column, _ in column_pairs],
            row_pairs,
            column_pairs,
        )

    # --- out -----------------------------------------------------------------------------------------------

    def save_numbers(
        self,
        path: Path | str,
        name: str,
        head: Head = "mean",
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> Path:
        """The exact weights of a part as float32: an array in ``.npy``, or "weights" in ``.safetensors``."""
        path = Path(path)
        if path.suffix not in _NUMBER_SUFFIXES:
            raise FileError(f"{path}: numbers are saved as {' or '.join(_NUMBER_SUFFIXES)}, not as {path.suffix!r}.")
        weights = self.tile(name, head, rows, columns).float().cpu().contiguous()
        if path.suffix == ".safetensors":
            return write_file(path, safetensors.torch.save({"weights": weights}), "numbers")
        content = io.BytesIO()
        np.save(content, weights.numpy(), allow_pickle=False)
        return write_file(path, content.getvalue(), "numbers")

    def figure(self, kind: str = "heatmap", **options: Any) -> Figure:
        """A matplotlib figure; the kinds and their options are those of ``saccade.lens.figures.FIGURES``."""
        from saccade.lens.figures import FIGURES

        if kind not in FIGURES:
            raise UnknownNameError("kind of figure", kind, FIGURES)
        return FIGURES[kind](self, **_fitting(f"A {kind} figure", FIGURES[kind], options))

    def terminal(self, kind: str = "heatmap", **options: Any) -> RenderableType:
        """What ``rich`` prints; the kinds and their options are those of ``saccade.lens.terminal.views.TERMINAL``."""
        from saccade.lens.terminal.views import TERMINAL, WithCoverage

        if kind not in TERMINAL:
            raise UnknownNameError("kind of view in the terminal", kind, TERMINAL)
        shown = TERMINAL[kind](self, **_fitting(f"A {kind} in the terminal", TERMINAL[kind], options))
        return WithCoverage(shown, str(self.coverage)) if self.left_out else shown

    def html(self, **options: Any) -> str:
        """One page that holds everything it needs: it opens from disk, without a network.

        Options are those of ``saccade.lens.page.page_of``: its ``title``; ``names`` and ``heads`` choose a part;
        ``name``, ``head``, ``row``, ``column``, ``words`` and ``kind`` what it opens on.
        """
        from saccade.lens.page import page_of

        return page_of(self, **_fitting("A page", page_of, options))

    def page(self, **options: Any) -> Frame:
        """The same page for a notebook, in a frame; a view that is shown by itself is the page without options."""
        from saccade.lens.page import fragment_of, page_of

        return Frame(fragment_of(self, **_fitting("A page", page_of, options)))

    def save(self, path: Path | str, kind: str = "heatmap", **options: Any) -> Path:
        """Write a figure of this kind as ``.png``, ``.svg`` or ``.pdf``, or the interactive page as ``.html``.

        A page opens on its heat map or its arcs; every kind has its own options, and so has the page (``html``).
        """
        from saccade.lens.figures.canvas import save

        path = Path(path)
        if path.suffix.lower() in (".html", ".htm"):
            return write_file(path, self.html(kind=kind, **options).encode(), "page")
        return save(self.figure(kind, **options), path)

    def _repr_html_(self) -> str:
        from saccade.lens.page import fragment_of

        try:
            return fragment_of(self)
        except SaccadeError as error:  # a notebook shows every value: that must not fail
            return f"<p>{html.escape(str(error))}</p>"

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {trace.shape[1:]}" for name, trace in self.traces.items())
        return f"View({shown}; {self.coverage})" if self.left_out else f"View({shown})"

    # --- parts ---------------------------------------------------------------------------------------------

    def _trace(self, name: str) -> Trace:
        if name not in self.traces:
            raise UnknownNameError("attention", name, self.traces)
        return self.traces[name]

    def _stack(self, stack: str | None) -> str:
        whole, broken = find_stacks(self.traces, self.is_self, self.gaps)
        if broken and (stack in broken or not whole):
            name = stack if stack in broken else next(iter(broken))
            raise OptionError(f"There is no rollout of {name}: {broken[name]}.")
        if not whole:
            raise OptionError("A rollout needs self-attentions; there are none among " + ", ".join(self.names) + ".")
        if stack is not None and stack not in whole:
            raise UnknownNameError("stack of self-attentions", stack, whole)
        return stack or next(iter(whole))

    def _padding(self, name: str) -> Bool[Tensor, " Q"] | None:
        """Which rows are padding: a self-attention tells, of its own rows and of queries that went through it."""
        trace = self._trace(name)
        if self.is_self(name):
            return trace.padding(self.batch)
        before = frozenset() if trace.place is None else trace.place.before
        for label, other in self.traces.items():
            is_before = other.place is not None and other.place.number in before
            if is_before and self.is_self(label) and other.shape[2] == trace.shape[2]:
                return other.padding(self.batch)
        return None

    def _check_head(self, head: Head) -> None:
        if not isinstance(head, int) and head not in _REDUCTIONS:
            raise OptionError(f"A head is a number, or {' or '.join(_REDUCTIONS)} for all heads, not {head!r}.")

    def _merging(self, name: str, words: bool) -> Callable[[Tensor], Tensor]:
        """From tokens to words, if words are asked for."""
        if not words:
            return lambda weights: weights
        rows, columns = self.rows[name].words, self.columns[name].words
        return lambda weights: merge(weights.double(), rows, columns).to(weights.dtype)

    def _over_heads(
        self,
        name: str,
        head: Head,
        merged: Callable[[Tensor], Tensor],
        rows: slice | range,
        columns: slice | range,
    ) -> Tensor:
        """One head, or all of them as their mean or maximum; of words, the maximum of the words' weights."""
        trace = self._trace(name)
        self._check_head(head)
        num_rows, num_columns = _length(rows, trace.shape[2]), _length(columns, trace.shape[3])
        if num_rows * num_columns > WEIGHTS_LIMIT:
            raise TooLargeError(
                f"The weights of {name} are {num_rows:,} by {num_columns:,} numbers; the limit is {WEIGHTS_LIMIT:,}. "
                "Ask for an overview(), a tile() or a row()."
            )
        if isinstance(head, int):
            return merged(trace.tile(rows, columns, head=head, batch=self.batch))
        every: Iterator[Tensor] = (
            merged(trace.tile(rows, columns, head=number, batch=self.batch)) for number in range(self.heads(name))
        )
        return measures.reduce_heads(every, head)


def view(
    seen: Mapping[str, Trace] | Mapping[str, Tensor | Sequence[Tensor]] | Sequence[Tensor],
    tokens: Sequence[str] | None = None,
    *,
    source_tokens: Sequence[str] | None = None,
    words: Sequence[int | None] | None = None,
    source_words: Sequence[int | None] | None = None,
    batch: int = 0,
    gold: Iterable[WordLink] | None = None,
) -> View:
    """What a model looked at, with its tokens: ``saccade.view(seen, tokens)``.

    ``seen`` is what ``watch`` saw, or weights (batch, heads, queries, keys) that a model wrote out itself: a list of
    layers (``outputs.attentions``), a mapping from names to layers, or a Hugging Face output that holds them.
    ``tokens`` are those of the sequence ``batch``, one for each position. A model that reads one sequence and writes
    another takes those it read as ``source_tokens``; ``tokens`` are then those that its decoder was given. Without
    tokens, positions are numbered. ``words`` gives the word of each token, as ``word_ids()`` of Hugging Face does;
    ``gold`` the true links of words, as (source, target).
    """
    if isinstance(seen, Mapping) and not seen:
        raise OptionError(_why_nothing(seen))
    traces, notes, gaps, coverage = _read(seen)
    if tokens is None and not (source_tokens is None and words is None and source_words is None):
        raise OptionError("source_tokens, words and source_words go with tokens, which were not given.")
    if source_tokens is None and source_words is not None:
        raise OptionError("source_words go with source_tokens, which were not given.")
    target = None if tokens is None else Axis.of(tokens, words)
    source = None if source_tokens is None else Axis.of(source_tokens, source_words)
    axes = {}
    for name, trace in traces.items():
        if not 0 <= batch < trace.shape[0]:
            raise ShapeError(f"There is no sequence {batch} in {name}; there are {trace.shape[0]}, counted from 0.")
        axes[name] = choose_axes(name, trace, target, source)
    return View(
        traces,
        {name: rows for name, (rows, _) in axes.items()},
        {name: columns for name, (_, columns) in axes.items()},
        batch,
        None if gold is None else frozenset(gold),
        tuple(gaps.values()),
        notes,
        coverage,
    )


class _Read(NamedTuple):
    """What a view is made of, whatever it was given."""

    traces: dict[str, Trace]
    notes: Mapping[str, str]
    gaps: Mapping[str, Gap]
    coverage: Coverage | None


def _read(seen: object) -> _Read:
    if isinstance(seen, Mapping) and any(isinstance(trace, Trace) for trace in seen.values()):
        traces = {name: trace for name, trace in seen.items() if isinstance(trace, Trace)}
        if isinstance(seen, Watch):
            return _Read(traces, {}, seen.gaps, seen.coverage)
        return _Read(traces, {}, {}, None)
    given = given_traces(seen)
    missing = {name: gap.reason for name, gap in given.gaps.items()}
    return _Read(*given, Coverage(tuple(given.traces), {}, missing))


def share(progress: Progress, number: int, count: int) -> Progress:
    """The progress of one part of several, as progress of the whole."""
    return lambda done: progress((number + done) / count)


def _length(part: slice | range, count: int) -> int:
    return len(part) if isinstance(part, range) else len(range(*part.indices(count)))


def _why_nothing(seen: object) -> str:
    if isinstance(seen, Watch) and seen.refused:
        name, reason = next(iter(seen.refused.items()))
        return f"There is nothing to view: the attention {name!r} cannot be shown: {reason}."
    if isinstance(seen, Watch) and not seen.coverage.is_complete:
        return f"There is nothing to view: {seen.coverage}"
    return "No attention was seen, so there is nothing to view; run a model that has some inside of watch()."


def _fitting(what: str, function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options, if the function takes them and needs no others."""
    try:
        inspect.signature(function).bind(None, **options)
    except TypeError as error:
        raise OptionError(f"{what}: {error}.") from None
    return options
