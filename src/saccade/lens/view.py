"""A view combines attention with the tokens on its two axes. Every picture is drawn from a view.

    with saccade.watch(model) as seen:
        model(**inputs)
    saccade.view(seen, tokens)

    saccade.view(model(**inputs, output_attentions=True), tokens)  # a model that returns its weights itself

A view computes weights only when they are asked for. Every number it shows is an exact weight of a recorded attention,
or is labelled with how it was computed from the weights.
"""

from __future__ import annotations

import html
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from jaxtyping import Bool, Float
from torch import Tensor

from saccade.attention import KeyWeight, Overview, Trace
from saccade.attention.watching.coverage import Coverage
from saccade.attention.watching.foreign.steps import Gap
from saccade.attention.watching.overview import Reduce, ReportProgress, progress_of_part
from saccade.attention.watching.trace import WEIGHTS_LIMIT
from saccade.errors import OptionError, SaccadeError, ShapeError, TooLargeError, UnknownNameError
from saccade.lens import measures
from saccade.lens.axis import Axis, is_cross_by_name
from saccade.lens.difference import Difference, subtract
from saccade.lens.files import write_file, write_numbers
from saccade.lens.given import ASSUMPTION, GivenTrace
from saccade.lens.labels import Tokens, label
from saccade.lens.links import WordLink
from saccade.lens.sources import read_source
from saccade.lens.stacks import choose_stack, find_stacks
from saccade.lens.words import merge

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from saccade.lens.page import Frame

__all__ = ["Axis", "Head", "View", "view"]

#: The number of a head, or the mean or maximum over all heads of the attention.
Head = int | Literal["mean", "max"]
AttentionKind = Literal["self", "causal", "cross", "unknown"]
Part = slice | range
_REDUCTIONS = get_args(Reduce)


@dataclass(frozen=True, repr=False)
class View:
    """The attention layers of a model, with the tokens of their rows (queries) and columns (keys), numbered from 0."""

    traces: Mapping[str, Trace]
    rows: Mapping[str, Axis]
    columns: Mapping[str, Axis]
    batch: int = 0
    gold: frozenset[WordLink] | None = None  # the true links between words, as (column, row)
    gaps: tuple[Gap, ...] = ()  # attentions that also ran but cannot be shown
    notes: Mapping[str, str] = field(default_factory=dict)  # a remark to print wherever an attention is shown
    coverage: Coverage | None = None  # which attentions of the model were seen, refused or missed; None if unknown

    @property
    def names(self) -> list[str]:
        return list(self.traces)

    @property
    def left_out(self) -> list[str]:
        """Notes for a picture of all attentions: how many attentions of the model the view lacks, and other remarks."""
        if self.coverage is None or self.coverage.is_complete:
            return []
        lost = len(self.coverage.refused) + len(self.coverage.unseen)
        counted = f"{lost} more {'attention' if lost == 1 else 'attentions'} of the model not shown"
        return [*([counted] if lost else []), *self.coverage.notes]

    def heads(self, name: str) -> int:
        return self._trace(name).shape[1]

    def describe(self, name: str, head: Head) -> str:
        """Return a title that names an attention layer and the head, followed by the note about this layer, if any."""
        count = self.heads(name)
        if isinstance(head, int):
            title = f"{name}, head {head}"
        else:
            title = name if count == 1 else f"{name}, {head} of {count} heads"
        return f"{title} ({self.notes[name]})" if name in self.notes else title

    def kind(self, name: str) -> AttentionKind:
        """Return "cross" if the keys are another sequence than the queries; otherwise "causal" if no query attends to a
        later key, and "self" if some query does. Return "unknown" if nothing shows which sequence the keys are.
        """
        trace = self._trace(name)
        if not self.is_self(name):
            if trace.place is None:
                return "cross" if is_cross_by_name(name) else "unknown"
            return trace.place.source  # "self" if only extra keys stand beside those of the rows
        if trace.shape[2] < 2:
            return "self"
        looks_ahead = trace.looks_ahead(self.batch)
        if looks_ahead:  # perhaps only in padding, whose rows may look anywhere
            padding = trace.padding(self.batch)
            looks_ahead = not bool(padding.any()) or bool(padding[:-1].all()) or trace.looks_ahead(self.batch, padding)
        return "self" if looks_ahead else "causal"

    def axes(self, name: str) -> tuple[Axis, Axis]:
        """Return the tokens of an attention's rows and columns."""
        self._trace(name)
        return self.rows[name], self.columns[name]

    def is_self(self, name: str) -> bool:
        """Return whether queries and keys are the same tokens, by the origin of the keys if known, else by names."""
        rows, columns = self.axes(name)
        place = self.traces[name].place
        is_own = not is_cross_by_name(name) if place is None else place.source == "self"
        return is_own and rows == columns

    @property
    def stacks(self) -> dict[str, list[str]]:
        """The names of self-attentions that follow each other, by a name with * for the layer: ``encoder.*.self``.

        Layers with another number of tokens form a separate stack: ``encoder.*.self of 4 tokens``. A stack is left out
        if one of its attentions cannot be shown. Cross-attentions are not part of a stack.
        """
        return find_stacks(self.traces, self.is_self, self.gaps, self.coverage).whole

    # --- weights -------------------------------------------------------------------------------------------

    def tile(self, name: str, head: Head, rows: Part, columns: Part) -> Float[Tensor, "Q K"]:
        """Return the exact weights of some rows and columns, which are tokens, of a head or of all heads combined."""
        return self._over_heads(name, head, False, rows, columns)

    def matrix(self, name: str, head: Head = "mean", *, words: bool = False) -> Float[Tensor, "Q K"]:
        """Return all weights of one head, or of all heads combined, between tokens or between words."""
        return self._over_heads(name, head, words, slice(None), slice(None))

    def row(self, name: str, row: int, *, words: bool = False) -> Float[Tensor, "H K"]:
        """Return the weights that one token (or word, with ``words``) gives to all keys, in each head."""
        trace, axis = self._trace(name), self.rows[name]
        count = axis.size(words)
        if not -count <= row < count:
            raise ShapeError(f"There is no row {row} in {name}; there are {count}, numbered from 0.")
        if not words:
            return trace.row(row, batch=self.batch)
        pieces = [place for place, word in enumerate(axis.words) if word == row % count]
        tile = trace.tile(range(pieces[0], pieces[-1] + 1), slice(None), batch=self.batch)
        return merge(tile.double(), [0] * len(pieces), self.columns[name].words).squeeze(-2).to(tile.dtype)

    def one_row(self, name: str, row: int, head: Head = "mean", *, words: bool = False) -> Float[Tensor, " K"]:
        """Return the weights that one token (or word) gives to all keys, in one head or in all heads combined."""
        every = self.row(name, row, words=words)
        self._check_head(head)
        if isinstance(head, int):
            if not -len(every) <= head < len(every):
                raise ShapeError(f"There is no head {head}; there are {len(every)}, numbered from 0.")
            return every[head]
        return measures.reduce_heads(iter(every), head)

    def top(self, name: str, row: int, k: int = 5, head: Head = "mean", *, words: bool = False) -> list[KeyWeight]:
        """Return the k keys with the largest weights for the query ``row``, largest first."""
        if k < 1:
            raise OptionError(f"top() needs k to be at least 1, not {k}.")
        weights = self.one_row(name, row, head, words=words)
        best = weights.topk(min(k, len(weights)))
        return [KeyWeight(int(place), float(weight)) for place, weight in zip(best.indices, best.values, strict=True)]

    def overview(
        self,
        name: str,
        head: Head = "mean",
        size: int = 512,
        reduce: Reduce | None = None,
        progress: ReportProgress | None = None,
    ) -> Overview:
        """Return a long attention as at most size×size cells, each the mean or maximum of a block of weights.

        For one head, ``reduce`` is "mean" or "max"; the default is "max", which keeps single strong links visible. For
        the mean of all heads, each cell is the mean of its block, and for their maximum it is the maximum.
        """
        trace = self._trace(name)
        if isinstance(head, int):
            return trace.overview(size, reduce or "max", head=head, batch=self.batch, progress=progress)
        self._check_head(head)
        if reduce not in (None, head):
            raise OptionError(f"reduce must be {head!r} for the {head} of all heads, not {reduce!r}.")
        num_heads = self.heads(name)
        found: list[Overview] = []
        for number in range(num_heads):
            part = progress_of_part(progress, number, num_heads)
            found.append(trace.overview(size, head, head=number, batch=self.batch, progress=part))
        values = measures.reduce_heads((one.values for one in found), head)
        return Overview(values, found[0].cell, head, exact=True)

    # --- measures ------------------------------------------------------------------------------------------

    def rollout(
        self,
        stack: str | None = None,
        heads: Literal["mean", "max"] = "mean",
        *,
        words: bool = False,
        assume_only_attention: bool = False,
    ) -> Float[Tensor, "N N"]:
        """Return how much of each token reaches each output of a stack of self-attentions (``measures.rollout``).

        ``stack`` is a name from ``stacks``. The default is the first stack, which is the encoder if there is one.
        Weights that a model returned do not show whether anything but attention mixes tokens in it. A rollout of them
        assumes that nothing does, so it raises an error unless you confirm this with ``assume_only_attention=True``.
        """
        self._check_head(heads)
        names = choose_stack(find_stacks(self.traces, self.is_self, self.gaps, self.coverage), stack, self.names)
        if self.assumption(names) and not assume_only_attention:
            raise OptionError(
                "Weights that a model returned do not show whether anything else mixes tokens between the layers, such "
                "as a convolution. If nothing does, call rollout(assume_only_attention=True)."
            )
        flow = measures.rollout([self.matrix(name, heads) for name in names])
        return self._merging(names[-1], words)(flow)

    def assumption(self, names: Iterable[str]) -> str | None:
        """Return what a rollout of these attentions has to assume about the model, as a phrase; None if nothing."""
        return ASSUMPTION if any(isinstance(self._trace(name), GivenTrace) for name in names) else None

    def entropy(self, name: str, progress: ReportProgress | None = None) -> Float[Tensor, " H"]:
        """Return the entropy of each head in bits, averaged over its rows."""
        return measures.entropy(self._trace(name), batch=self.batch, padding=self._padding(name), progress=progress)

    def distance(self, name: str, progress: ReportProgress | None = None) -> Float[Tensor, " H"]:
        """Return how many tokens away each head attends on average; it must be a self-attention."""
        if not self.is_self(name):
            why = (
                "attends to another sequence"
                if self.kind(name) == "cross"
                else "is not known to have the same tokens on both axes"
            )
            raise OptionError(f"Distance is defined only for self-attention; {name} {why}.")
        return measures.distance(self._trace(name), batch=self.batch, padding=self._padding(name), progress=progress)

    def norms(self, name: str, head: Head = "mean") -> Float[Tensor, "Q K"]:
        """Return the norm of weight · value · W_O for each query and key (``Trace.norms``)."""
        return self._of_head(self._trace(name).norms(batch=self.batch), head)

    def output_norms(self, name: str) -> Float[Tensor, "H Q"]:
        """Return the norm of the vector that each head adds to the output of each token (``Trace.output_norms``)."""
        return self._trace(name).output_norms(batch=self.batch)

    def times_gradient(self, name: str, head: Head = "mean") -> Float[Tensor, "Q K"]:
        """Return each weight times its gradient from the last ``backward()`` (``Trace.times_gradient``)."""
        return self._of_head(self._trace(name).times_gradient(batch=self.batch), head)

    def _of_head(self, every: Float[Tensor, "H Q K"], head: Head) -> Float[Tensor, "Q K"]:
        self._check_head(head)
        return every[head] if isinstance(head, int) else measures.reduce_heads(iter(every), head)

    def difference(self, other: View, name: str, head: Head = "mean", *, words: bool = False) -> Difference:
        """Return the weights of this view minus those of ``other``, between the tokens that both inputs share."""
        return subtract(self, other, name, head, words=words)

    # --- output --------------------------------------------------------------------------------------------

    def save_numbers(
        self,
        path: Path | str,
        name: str,
        head: Head = "mean",
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> Path:
        """Save weights of some rows and columns as float32: ``.npy``, or the tensor "weights" in ``.safetensors``."""
        return write_numbers(Path(path), self.tile(name, head, rows, columns))

    def figure(self, kind: str = "heatmap", **options: Any) -> Figure:
        """Draw a matplotlib figure; ``saccade.lens.figures.FIGURES`` lists the kinds and their options."""
        from saccade.lens.figures import FIGURES

        if kind not in FIGURES:
            raise UnknownNameError("kind of figure", kind, FIGURES)
        return FIGURES[kind](self, **_checked(f"A {kind} figure", FIGURES[kind], options))

    def terminal(self, kind: str = "heatmap", **options: Any) -> RenderableType:
        """Return an object that ``rich`` prints; ``saccade.lens.terminal.views.TERMINAL`` lists kinds and options."""
        from saccade.lens.terminal.views import TERMINAL, WithCoverage

        if kind not in TERMINAL:
            raise UnknownNameError("terminal view", kind, TERMINAL)
        shown = TERMINAL[kind](self, **_checked(f"A {kind} in the terminal", TERMINAL[kind], options))
        return WithCoverage(shown, str(self.coverage)) if self.left_out else shown

    def html(self, **options: Any) -> str:
        """Return one self-contained interactive HTML page, which a browser can open from disk without a network.

        The options are those of ``saccade.lens.page.render_page``: ``title``; ``names`` and ``heads``, which choose the
        attentions on it; and ``name``, ``head``, ``row``, ``column``, ``words`` and ``kind``: what it shows first.
        """
        from saccade.lens.page import render_page

        return render_page(self, **_checked("A page", render_page, options))

    def page(self, **options: Any) -> Frame:
        """Return the page of ``html`` in a frame for a notebook, as a view at the end of a cell shows it."""
        from saccade.lens.page import render_frame, render_page

        return render_frame(self, **_checked("A page", render_page, options))

    def save(self, path: Path | str, kind: str = "heatmap", **options: Any) -> Path:
        """Save a figure of this kind as ``.png``, ``.svg`` or ``.pdf``, or the interactive page as ``.html``.

        Each kind of figure has its own options. The page takes those of ``html``; its kind is "heatmap" or "arcs".
        """
        from saccade.lens.figures.formats import save

        path = Path(path)
        if path.suffix.lower() in (".html", ".htm"):
            return write_file(path, self.html(kind=kind, **options).encode(), "page")
        return save(self.figure(kind, **options), path)

    def _repr_html_(self) -> str:
        try:
            return self.page()
        except SaccadeError as error:  # a notebook shows every value, so this must not fail
            return f"<p>{html.escape(str(error))}</p>"

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {trace.shape[1:]}" for name, trace in self.traces.items())
        return f"View({shown}; {self.coverage})" if self.left_out else f"View({shown})"

    # --- helpers -------------------------------------------------------------------------------------------

    def _trace(self, name: str) -> Trace:
        if name not in self.traces:
            raise UnknownNameError("attention", name, self.traces)
        return self.traces[name]

    def _padding(self, name: str) -> Bool[Tensor, " Q"] | None:
        """Return which rows are padding, according to this self-attention or an earlier one with the same rows."""
        trace = self._trace(name)
        if self.is_self(name):
            return trace.padding(self.batch)
        for earlier, other in self.traces.items():
            if trace.place is None or other.place is None:  # names show the order: decoder.2.self, decoder.2.cross
                is_before = trace.place is other.place and earlier.split(".")[0] == name.split(".")[0]
            else:
                is_before = other.place.number in trace.place.before
            if is_before and self.is_self(earlier) and other.shape[2] == trace.shape[2]:
                return other.padding(self.batch)
        return None

    def _check_head(self, head: Head) -> None:
        if not isinstance(head, int) and head not in _REDUCTIONS:
            raise OptionError(f"head must be a number, or {' or '.join(_REDUCTIONS)} over all heads, not {head!r}.")

    def _merging(self, name: str, words: bool) -> Callable[[Tensor], Tensor]:
        """Return a function that merges tokens into words, or leaves the weights as they are."""
        if not words:
            return lambda weights: weights
        rows, columns = self.rows[name].words, self.columns[name].words
        return lambda weights: merge(weights.double(), rows, columns).to(weights.dtype)

    def _over_heads(self, name: str, head: Head, words: bool, rows: Part, columns: Part) -> Tensor:
        """Return one head, or the mean or maximum of all heads after merging tokens into words."""
        trace, merged = self._trace(name), self._merging(name, words)
        self._check_head(head)
        num_rows, num_columns = (
            len(part if isinstance(part, range) else range(*part.indices(count)))
            for part, count in zip((rows, columns), trace.shape[2:], strict=True)
        )
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
    tokens: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    *,
    source_tokens: Sequence[str] | None = None,
    words: Sequence[int | None] | Mapping[str, Sequence[int | None]] | None = None,
    source_words: Sequence[int | None] | None = None,
    batch: int | None = None,
    gold: Iterable[WordLink] | None = None,
) -> View:
    """Return a view of a model's attention with its tokens, which a notebook displays: ``saccade.view(seen, tokens)``.

    Args:
        seen: what ``watch`` recorded, or weights (batch, heads, queries, keys) that a model returned: a list of layers
            (``outputs.attentions``), a mapping from names to layers, or a Hugging Face output that holds them.
        tokens: one for each position of the sequence to show; without tokens, positions are numbered. For an
            encoder-decoder, these are the decoder's input. For a model with several encoders (CLIP), a mapping from
            encoder names to tokens, such as ``{"text_model": tokens}``; in other encoders, positions are numbered.
        source_tokens: the tokens that the encoder of an encoder-decoder reads.
        words: for each token, the index of its word, as Hugging Face's ``word_ids()`` returns it.
        source_words: the same for ``source_tokens``.
        batch: which sequence of the batch to show, the first one by default. It has no default if only weights are
            given, without the rest of the output, and hold several sequences, which may be windows of one input.
        gold: the true links between words, as (source, target).
    """
    source = read_source(seen)
    batch = source.choose_batch(batch)
    given = Tokens.of(tokens, source_tokens, words, source_words)
    if given.have_equal_lengths:
        source.check_named()
    for name, trace in source.traces.items():
        if not 0 <= batch < trace.shape[0]:
            raise ShapeError(f"There is no sequence {batch} in {name}; there are {trace.shape[0]}, numbered from 0.")
    axes, notes = label(source.traces, given)
    return View(
        source.traces,
        {name: rows for name, (rows, _) in axes.items()},
        {name: columns for name, (_, columns) in axes.items()},
        batch,
        None if gold is None else frozenset(gold),
        tuple(source.gaps.values()),
        {
            name: "; ".join(part[name] for part in (source.notes, notes) if name in part)
            for name in source.notes | notes
        },
        source.coverage,
    )


def _checked(what: str, function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options if the function accepts them and needs no others."""
    try:
        inspect.signature(function).bind(None, **options)
    except TypeError as error:
        raise OptionError(f"{what}: {error}.") from None
    return options
