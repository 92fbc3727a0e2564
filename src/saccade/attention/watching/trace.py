"""The record of one watched attention layer, from which the exact weights of any tile can be computed.

A tile is a block of rows (queries) and columns (keys). A trace keeps the projected queries and keys, the mask and the
bias, which takes O(N·D) memory, but never the N×N weights. The weights of a tile are computed on request (``segment``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.overview import Overview, Reduce, ReportProgress, pool
from saccade.attention.watching.reach import looks_ahead, unreached
from saccade.attention.watching.segment import STATISTIC_LIMIT, Fingerprint, Segment, exact_weights
from saccade.errors import OptionError, ShapeError, StaleTraceError, TooLargeError

__all__ = ["KeyWeight", "Place", "Trace"]

#: Maximum number of weights that ``Trace.weights`` returns unless forced (256 MB in float32).
WEIGHTS_LIMIT = 1 << 26
KEEP_VALUES = "watch the model with values=True (nothing is kept if the layer was given several sets of values)"


class Place(NamedTuple):
    """What is known about an attention call of a model from another library: which tokens its queries, keys and values
    come from, and which attention calls come before it."""

    source: Literal["self", "cross", "unknown"]  # whether keys and queries come from the same sequence
    number: int  # unique for each attention
    before: frozenset[int]  # the numbers of the operations, attentions among them, that produced its queries
    is_whole: bool  # True if its batch is the model's input batch; False if it attends within windows or single frames
    is_in_order: bool = False  # True if its rows are known to be the tokens of the input in their order
    change: str | None = None  # the function that last mixed or moved the tokens of its queries or keys
    is_mixed: bool = False  # True if its queries were made of several tokens of a text each
    extra: tuple[int, ...] = ()  # its keys that belong to no token, such as learned ones
    has_keys_in_order: bool = True  # False if its keys are not known to be tokens of an input in their order
    has_own_values: bool = True  # False if its values are not known to be the tokens of its keys, in their order
    beside: Set[int] = frozenset()  # attentions that neither come before nor after it, but belong to the same layer
    inputs: frozenset[int] = frozenset()  # the inputs of the model, or parts of them, that its queries come from
    is_text: bool = False  # True if its queries are known to be tokens of a text, or made of them
    has_text_keys: bool = False  # the same for its keys


class KeyWeight(NamedTuple):
    """A key and the weight that a query gives it."""

    column: int
    weight: float


@contextmanager
def _without_gradients() -> Iterator[None]:
    """Read a trace unwatched and without gradients; the results can be used inside and outside inference mode."""
    with torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.no_grad():
        yield


class Trace:
    """The attention of one layer as it was watched. Its methods compute any part of the exact weights on request.

    If calls of the layer continue each other (the steps of a recurrent or cached decoder), one trace has all rows.
    The weights are those before dropout.
    """

    def __init__(
        self, name: str, call: Call, place: Place | None = None, fingerprint: Fingerprint | None = None
    ) -> None:
        self.name = name
        self.place = place  # None for Saccade's own layers, whose names tell their place
        self.is_one_of_many = False  # True for one of Saccade's layers if other parts of its model may mix tokens too
        self._segments = [Segment(call, 0, fingerprint)]
        self._num_columns = call.shape[3]
        self._num_shared = 0  # number of segments that share one copy of the keys

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, queries, keys)"""
        batch, heads, _, _ = self._segments[0].call.shape
        return batch, heads, self._segments[-1].stop, self._num_columns

    @property
    def nbytes(self) -> int:
        """Memory in bytes of all tensors kept: queries, keys, values, masks, biases, and statistics computed so far."""
        storages = [tensor.untyped_storage() for part in self._segments for tensor in part.tensors()]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def __repr__(self) -> str:
        return f"Trace({self.name!r}, shape={self.shape})"

    def tile(
        self,
        rows: slice | range,
        columns: slice | range,
        *,
        head: int | None = None,
        batch: int | None = None,
    ) -> Float[Tensor, "*BH Q K"]:
        """Return the exact weights of these rows and columns.

        If one head or one sequence (``batch``) is chosen, the result does not have that dimension.
        """
        _, _, num_rows, num_columns = self.shape
        tile = self._tile(
            _part("row", rows, num_rows),
            _part("column", columns, num_columns),
            *self._select(head, batch),
        )
        return _without_chosen(tile, head, batch)

    def row(self, row: int, *, head: int | None = None, batch: int | None = None) -> Float[Tensor, "*BH K"]:
        """Return the weights of one query on all keys."""
        row = _one_or_all("row", row, self.shape[2]).start
        return self.tile(slice(row, row + 1), slice(None), head=head, batch=batch).squeeze(-2)

    def weights(
        self, *, head: int | None = None, batch: int | None = None, force: bool = False
    ) -> Float[Tensor, "*BH Q K"]:
        """Return all the weights; raise an error if they are more than ``WEIGHTS_LIMIT`` numbers, unless ``force``."""
        batches, heads = self._select(head, batch)
        count = len(batches) * len(heads) * self.shape[2] * self.shape[3]
        if count > WEIGHTS_LIMIT and not force:
            raise TooLargeError(
                f"The weights of {self.name} are {count:,} numbers ({count * 4 / 2**30:.1f} GiB); the limit is "
                f"{WEIGHTS_LIMIT:,}. Ask for a tile(), a row() or an overview(), or pass force=True."
            )
        return self.tile(slice(None), slice(None), head=head, batch=batch)

    def top(self, row: int, k: int = 5, *, head: int = 0, batch: int = 0) -> list[KeyWeight]:
        """Return the k keys with the largest weights for one query, the largest first."""
        if k < 1:
            raise OptionError(f"top() needs k to be at least 1, not {k}.")
        weights = self.row(row, head=head, batch=batch)
        best = weights.topk(min(k, len(weights)))
        return [KeyWeight(int(i), float(w)) for i, w in zip(best.indices, best.values, strict=True)]

    @_without_gradients()
    def overview(
        self,
        size: int = 512,
        reduce: Reduce = "mean",
        *,
        head: int = 0,
        batch: int = 0,
        preview: bool = False,
        progress: ReportProgress | None = None,
    ) -> Overview:
        """Return one head as a picture of at most size×size cells, each the mean or maximum of a rectangle of weights.

        With ``preview``, only one query is computed for each row of cells; if cells have several rows, the attribute
        ``exact`` of the result is then False. ``progress`` is called with the fraction done, from 0 to 1.
        """
        batches, heads = self._select(head, batch)
        parts = [
            (range(segment.start, segment.stop), segment.part(self.name, batches, heads)) for segment in self._segments
        ]

        def statistic(rows: range) -> Tensor:
            return torch.cat([part.statistics(local, batches, heads) for part, local in self._cover(rows)], dim=2)

        return pool(parts, statistic, self.shape[2:], size, reduce, preview, progress)

    # --- values and outputs, for a watch with ``values=True`` ---

    @_without_gradients()
    def values(self, *, head: int | None = None, batch: int | None = None) -> Float[Tensor, "*BH K V"]:
        """Return the projected values, one row for each key."""
        last = self._segments[-1].part(self.name, *self._select(head, batch))
        values = self._values_of(last)
        if last.shape[3] < self._num_columns:
            raise OptionError(f"The calls of {self.name} had different keys, so there is no single set of values.")
        return _without_chosen(values.clone(), head, batch)

    @_without_gradients()
    def outputs(self, *, head: int | None = None, batch: int | None = None) -> Float[Tensor, "*BH Q V"]:
        """Return the output of each head for each query, before W_O: its weights times its values."""
        self._check_dropout()
        batches, heads = self._select(head, batch)
        parts = []
        for segment in self._segments:
            part = segment.part(self.name, batches, heads)
            values = self._values_of(part)
            tall = max(1, STATISTIC_LIMIT // max(1, len(batches) * len(heads) * part.shape[3]))
            for first in range(0, part.shape[2], tall):
                rows = range(first, min(first + tall, part.shape[2]))
                weights = exact_weights(part, segment.statistics(rows, batches, heads), rows, range(part.shape[3]))
                parts.append((weights @ values.to(weights.dtype)).to(values.dtype))
        return _without_chosen(torch.cat(parts, dim=2), head, batch)

    @_without_gradients()
    def norms(self, *, head: int | None = None, batch: int | None = None) -> Float[Tensor, "*BH Q K"]:
        """Return, for each query and key, the norm of weight · value · W_O, the vector that the key adds to the output.

        A key with a large weight but a short vector (value · W_O) contributes little (Kobayashi 2020, §3).
        """
        batches, heads = self._select(head, batch)
        vectors = self._projected(self.values()[batches.start : batches.stop, heads.start : heads.stop], heads)
        lengths = _without_chosen(vectors.norm(dim=-1), head, batch)
        weights = self.weights(head=head, batch=batch)
        return weights * lengths.unsqueeze(-2).to(weights.dtype)

    @_without_gradients()
    def output_norms(self, *, head: int | None = None, batch: int | None = None) -> Float[Tensor, "*BH Q"]:
        """Return, for each query and head, the norm of weights · values · W_O, which the head adds to the output."""
        batches, heads = self._select(head, batch)
        outputs = self.outputs()[batches.start : batches.stop, heads.start : heads.stop]
        return _without_chosen(self._projected(outputs, heads).norm(dim=-1).to(outputs.dtype), head, batch)

    @_without_gradients()
    def times_gradient(self, *, head: int | None = None, batch: int | None = None) -> Float[Tensor, "*BH Q K"]:
        """Return each weight times its gradient: to first order, what it adds to the number that was differentiated.

        Before this, call ``backward()`` on that number, which may be any one number computed from the model's output.
        """
        after = self._segments[-1].call.after
        if after is None:
            raise OptionError(f"The gradient of {self.name} was not kept; {KEEP_VALUES}.")
        if after.gradient is None or len(self._segments) > 1:
            raise OptionError(
                f"No gradient has reached {self.name}: run the model once with gradients enabled, and call backward() "
                "on a number that is computed from its output."
            )
        self._check_dropout()
        batches, heads = self._select(head, batch)
        cut = (slice(batches.start, batches.stop), slice(heads.start, heads.stop))
        weights = self.weights(head=head, batch=batch)
        gradient = after.gradient[cut].double() @ self.values()[cut].double().mT
        return weights * _without_chosen(gradient, head, batch).to(weights.dtype)

    def _check_dropout(self) -> None:
        """Refuse what depends on the weights after dropout, which are not kept."""
        if any(segment.call.has_dropout for segment in self._segments):
            raise OptionError(
                f"Dropout removed some weights of {self.name} at random, so its heads' outputs cannot be computed "
                f"from its weights; call model.eval() first."
            )

    def _projected(self, vectors: Float[Tensor, "B H N V"], heads: range) -> Float[Tensor, "B H N E"]:
        """Return the vectors of these heads, each multiplied by its head's part of W_O."""
        after = self._segments[-1].call.after
        if after is None:
            raise OptionError(f"W_O of {self.name} was not kept; {KEEP_VALUES}.")
        if after.projection is None:
            raise OptionError(
                f"{self.name} has no W_O that Saccade can find: no matrix was applied directly to its heads' outputs."
            )
        if not after.projection.is_inference() and after.projection._version != after.version:
            raise StaleTraceError(f"W_O of {self.name} changed in place after it was watched; watch again.")
        parts = after.projection.double().reshape(self.shape[1], -1, after.projection.shape[1])
        parts = parts[heads.start : heads.stop]
        return torch.einsum("bhnv,hve->bhne", vectors.double(), parts)

    def _values_of(self, part: Call) -> Float[Tensor, "B H K V"]:
        if part.value is None:
            raise OptionError(f"The values of {self.name} were not kept; {KEEP_VALUES}.")
        return part.value.expand(-1, part.shape[1], -1, -1) if part.value.shape[1] == 1 else part.value

    @_without_gradients()
    def padding(self, batch: int = 0) -> Bool[Tensor, " K"]:
        """Return, for each key, whether it is padding, that is, whether no query may attend to it."""
        return unreached(self._parts(batch), self.shape[3])

    @_without_gradients()
    def looks_ahead(self, batch: int = 0, but: Bool[Tensor, " Q"] | None = None) -> bool:
        """Return whether any query may attend to a later position, in any head; ``but`` is True for queries to skip."""
        return looks_ahead(self._parts(batch), but)

    def _parts(self, batch: int) -> list[tuple[Segment, Call]]:
        chosen = self._select(None, batch)
        return [(segment, segment.part(self.name, *chosen)) for segment in self._segments]

    def only_call(self, *, head: int, batch: int) -> Call | None:
        """Return the call that computed one head of one sequence; None if the trace joins several calls."""
        if len(self._segments) > 1:
            return None
        return self._segments[0].part(self.name, *self._select(head, batch))

    # --- for the watcher ---

    def continues(self, call: Call) -> bool:
        """Return whether the rows of this call come right after the rows that the trace has so far."""
        batch, heads, rows, _ = self.shape
        next_row = self._segments[0].call.first_row + rows
        return call.first_row == next_row and call.shape[:2] == (batch, heads)

    def append(self, call: Call, fingerprint: Fingerprint | None = None) -> None:
        """Add the rows of a call that continues the trace. If ``fingerprint`` is None, its checksums are computed."""
        old, new = self._segments[-1].call.key, call.key
        same_memory = old.data_ptr() == new.data_ptr() and old.stride() == new.stride()
        if same_memory and old.shape == new.shape and old._version == new._version:
            call = replace(call, key=old)  # a recurrent decoder attends to the same keys at every step
        self._segments.append(Segment(call, self._segments[-1].stop, fingerprint))
        self._num_columns = max(self._num_columns, call.shape[3])

    def crop(self, num_rows: int, num_columns: int) -> bool:
        """Keep only the first rows and columns, and return True.

        If one of the rows to keep has a weight in a column that would be dropped, change nothing and return False.
        """
        kept = [segment for segment in self._segments if segment.start < num_rows]
        beyond = slice(num_columns, self._num_columns)
        if num_columns < self._num_columns and bool(self.tile(slice(0, num_rows), beyond).any()):
            return False
        for place, segment in enumerate(kept):
            call = segment.call
            rows = min(call.shape[2], num_rows - segment.start)
            if rows < call.shape[2] or call.shape[3] > num_columns:
                value = None if call.value is None else call.value[:, :, :num_columns]
                call = replace(call, query=call.query[:, :, :rows], key=call.key[:, :, :num_columns], value=value)
                kept[place] = Segment(call, segment.start, segment.stale_fingerprint())
        self._segments, self._num_shared = kept, 0
        self._num_columns = max(segment.call.shape[3] for segment in kept)
        return True

    def share_keys(self, every: int) -> None:
        """Make all calls share one copy of the keys, if more than ``every`` calls have been added since the last time.

        The keys of the last call must start with the keys of every earlier call.
        """
        if len(self._segments) - self._num_shared > every:
            last = self._segments[-1].call
            for segment in self._segments[:-1]:
                segment.use_keys_of(last)
            self._num_shared = len(self._segments)

    def _select(self, head: int | None, batch: int | None) -> tuple[range, range]:
        num_batch, num_heads, _, _ = self.shape
        return _one_or_all("sequence", batch, num_batch), _one_or_all("head", head, num_heads)

    def _cover(self, rows: range) -> Iterator[tuple[Segment, range]]:
        """Yield the segments that hold these rows, each with its own part of them."""
        for segment in self._segments:
            start, stop = max(rows.start, segment.start), min(rows.stop, segment.stop)
            if start < stop:
                yield segment, range(start - segment.start, stop - segment.start)

    @_without_gradients()
    def _tile(self, rows: range, columns: range, batch: range, heads: range) -> Tensor:
        query = self._segments[0].call.query
        dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        shape = (len(batch), len(heads), len(rows), len(columns))
        tile = torch.zeros(shape, dtype=dtype, device=query.device)
        done = 0
        for segment, local in self._cover(rows):
            part = segment.part(self.name, batch, heads)
            pair = part.score.pair_width(part.key.shape[-1])
            tall = max(1, STATISTIC_LIMIT // max(1, len(batch) * len(heads) * len(columns) * pair))
            for first in range(local.start, local.stop, tall):
                block = range(first, min(first + tall, local.stop))
                span = part.span(block)
                reach = range(max(columns.start, span.start), min(columns.stop, span.stop))
                if len(reach):
                    weights = exact_weights(part, segment.statistics(block, batch, heads), block, reach)
                    target = slice(reach.start - columns.start, reach.stop - columns.start)
                    tile[:, :, done : done + len(block), target] = weights
                done += len(block)
        return tile


def _without_chosen(tensor: Tensor, head: int | None, batch: int | None) -> Tensor:
    """Drop the batch and head dimensions for which a single index was chosen."""
    tensor = tensor if head is None else tensor.squeeze(1)
    return tensor if batch is None else tensor.squeeze(0)


def _one_or_all(what: str, index: int | None, count: int) -> range:
    if index is None:
        return range(count)
    if not -count <= index < count:
        raise ShapeError(f"There is no {what} {index}; there are {count}, numbered from 0.")
    index %= count
    return range(index, index + 1)


def _part(what: str, part: slice | range | Sequence[int], count: int) -> range:
    if isinstance(part, slice):
        start, stop, step = part.indices(count)
        part = range(start, max(start, stop), step)
    if not isinstance(part, range) or part.step != 1 or part.start < 0 or part.stop > count:
        raise ShapeError(
            f"The {what}s of a tile must be a slice or range with step 1, between 0 and {count}, not {part!r}."
        )
    return part
