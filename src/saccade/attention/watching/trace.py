"""What a watched attention leaves behind, and the exact weights of any tile of it.

A trace keeps the projected queries and keys and the rules, O(N·D), never the N×N weights. The weights of any
tile follow on request: its scores, and the statistics of its rows, which are computed in blocks on first need
and kept. Scores are computed in float64, because a float32 score of size 20 is only good to 1e-6 and a weight
is its exponential.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.overview import Overview, Progress, Reduce, pool
from saccade.errors import OptionError, ShapeError, StaleTraceError, TooLargeError

__all__ = ["Link", "Place", "Trace"]

#: The most weights that ``Trace.weights`` forms without being forced (256 MB in float32).
WEIGHTS_LIMIT = 1 << 26
#: What is added to a score to say that a key is forbidden is at most this.
FORBIDDEN = -1e3
#: The most scores that are held at once while statistics are computed (4 MB in float64).
STATISTIC_LIMIT = 1 << 19
#: Columns at a time, where the statistic of a row can be merged from parts.
STATISTIC_COLUMNS = 2048


class Place(NamedTuple):
    """Where an attention of someone's model stands in the forward that it was seen in."""

    source: Literal["self", "cross", "unknown"]  # where its keys come from, seen from its queries
    number: int  # no two attentions have the same one
    before: frozenset[int]  # the numbers of the attentions, among others, that its queries went through
    is_whole: bool  # whether its batch is that of the model's input: not so if it looks at windows or single frames


class Link(NamedTuple):
    """One key and the weight that a query gives it."""

    column: int
    weight: float


@contextmanager
def _reading() -> Iterator[None]:
    """Reading a trace records no gradient, and keeps statistics that any later reader can go on with."""
    with torch.inference_mode(False), torch.no_grad():
        yield


class Trace:
    """The attention of one layer as it was watched: any part of its weights, exactly, on request.

    Calls that continue each other (the steps of a recurrent or cached decoder) are the rows of one trace.
    Weights are those before dropout.
    """

    def __init__(self, name: str, call: Call, place: Place | None = None) -> None:
        self.name = name
        self.place = place  # None for attentions of ours, whose names tell it
        self._segments = [_Segment(call, start=0)]
        self._num_columns = call.shape[3]
        self._num_shared = 0  # segments whose keys are kept in one place

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, queries, keys)"""
        batch, heads, _, _ = self._segments[0].call.shape
        return batch, heads, self._segments[-1].stop, self._num_columns

    @property
    def nbytes(self) -> int:
        """How much it keeps: queries, keys, the tensors of its rules, and the statistics that were asked for."""
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
        """The exact weights of these rows and columns; a head or batch that is given drops its dimension."""
        _, _, num_rows, num_columns = self.shape
        tile = self._tile(
            _part("row", rows, num_rows),
            _part("column", columns, num_columns),
            *self._select(head, batch),
        )
        tile = tile if head is None else tile.squeeze(1)
        return tile if batch is None else tile.squeeze(0)

    def row(self, row: int, *, head: int | None = None, batch: int | None = None) -> Float[Tensor, "*BH K"]:
        """How much one query takes from each key."""
        row = self._one("row", row, self.shape[2])
        return self.tile(slice(row, row + 1), slice(None), head=head, batch=batch).squeeze(-2)

    def weights(
        self, *, head: int | None = None, batch: int | None = None, force: bool = False
    ) -> Float[Tensor, "*BH Q K"]:
        """All the weights; refused above ``WEIGHTS_LIMIT`` numbers unless forced."""
        batches, heads = self._select(head, batch)
        count = len(batches) * len(heads) * self.shape[2] * self.shape[3]
        if count > WEIGHTS_LIMIT and not force:
            raise TooLargeError(
                f"The weights of {self.name} are {count:,} numbers ({count * 4 / 2**30:.1f} GiB); the limit is "
                f"{WEIGHTS_LIMIT:,}. Ask for a tile(), a row() or an overview(), or pass force=True."
            )
        return self.tile(slice(None), slice(None), head=head, batch=batch)

    def top(self, row: int, k: int = 5, *, head: int = 0, batch: int = 0) -> list[Link]:
        """The k keys that one query takes most from, the strongest first."""
        if k < 1:
            raise OptionError(f"top() takes k of at least 1; not {k}.")
        weights = self.row(row, head=head, batch=batch)
        best = weights.topk(min(k, len(weights)))
        return [Link(int(i), float(w)) for i, w in zip(best.indices, best.values, strict=True)]

    @_reading()
    def overview(
        self,
        size: int = 512,
        reduce: Reduce = "mean",
        *,
        head: int = 0,
        batch: int = 0,
        preview: bool = False,
        progress: Progress | None = None,
    ) -> Overview:
        """One head as a picture of at most size×size cells, each the mean or the maximum of its weights.

        A preview looks at one row of each row of cells only, and says so (``exact`` is False). ``progress`` is
        called with the share done, from 0 to 1.
        """
        batches, heads = self._select(head, batch)
        parts = [
            (range(segment.start, segment.stop), segment.part(self.name, batches, heads)) for segment in self._segments
        ]

        def statistic(rows: range) -> Tensor:
            return torch.cat([part.statistics(local, batches, heads) for part, local in self._cover(rows)], dim=2)

        return pool(parts, statistic, self.shape[2:], size, reduce, preview, progress)

    @_reading()
    def padding(self, batch: int = 0) -> Bool[Tensor, " K"]:
        """The keys that no query may attend to, among the queries that may attend to any: filling, no tokens."""
        reached = torch.zeros(self.shape[3], dtype=torch.bool, device=self._segments[0].call.query.device)
        batches, heads = self._select(None, batch)
        for segment in reversed(self._segments):  # the last rows of a decoder reach every token
            part = segment.part(self.name, batches, heads)
            width = part.shape[3]
            tall = max(1, STATISTIC_LIMIT // max(1, len(heads) * width))
            for first in range(0, part.shape[2], tall):
                rows = range(max(0, part.shape[2] - first - tall), part.shape[2] - first)
                if part.weights.is_given:
                    allowed = exact_weights(part, segment.statistics(rows, batches, heads), rows, range(width)) > 0
                else:
                    added = part.added(rows, range(width), torch.float32)
                    allowed = reached.new_ones(1, 1, 1, width) if added is None else added > FORBIDDEN
                reached[:width] |= allowed.expand(-1, -1, -1, width).flatten(0, 2).any(0)
                if bool(reached.all()):
                    return ~reached
        return ~reached

    def only_call(self, *, head: int, batch: int) -> Call | None:
        """The call that one head of one sequence was computed by; None where several continue each other."""
        if len(self._segments) > 1:
            return None
        return self._segments[0].part(self.name, *self._select(head, batch))

    # --- what watching does with it ---

    def continues(self, call: Call) -> bool:
        """Whether this call's rows come right after those of the trace."""
        batch, heads, rows, _ = self.shape
        next_row = self._segments[0].call.first_row + rows
        return call.first_row == next_row and call.shape[:2] == (batch, heads)

    def append(self, call: Call) -> None:
        last = self._segments[-1].call
        if _same_memory(last.key, call.key):
            call = replace(call, key=last.key)  # a recurrent decoder asks the same keys again and again
        self._segments.append(_Segment(call, start=self._segments[-1].stop))
        self._num_columns = max(self._num_columns, call.shape[3])

    def crop(self, num_rows: int, num_columns: int) -> bool:
        """Forget all rows and columns but the first ones; False if a row that stays has weight beyond them."""
        kept = [segment for segment in self._segments if segment.start < num_rows]
        beyond = slice(num_columns, self._num_columns)
        if num_columns < self._num_columns and bool(self.tile(slice(0, num_rows), beyond).any()):
            return False
        for place, segment in enumerate(kept):
            call = segment.call
            rows = min(call.shape[2], num_rows - segment.start)
            if rows < call.shape[2] or call.shape[3] > num_columns:
                call = replace(call, query=call.query[:, :, :rows], key=call.key[:, :, :num_columns])
                kept[place] = _Segment(call, segment.start)
        self._segments, self._num_shared = kept, 0
        self._num_columns = max(segment.call.shape[3] for segment in kept)
        return True

    def share_keys(self, every: int) -> None:
        """Keep the keys once, where those of each call are known to be the first ones of the last call's."""
        if len(self._segments) - self._num_shared > every:
            whole = self._segments[-1].call.key
            for segment in self._segments[:-1]:
                segment.use_key(whole[:, :, : segment.call.shape[3]])
            self._num_shared = len(self._segments)

    def _select(self, head: int | None, batch: int | None) -> tuple[range, range]:
        num_batch, num_heads, _, _ = self.shape
        return _one_or_all("sequence", batch, num_batch), _one_or_all("head", head, num_heads)

    def _one(self, what: str, index: int, count: int) -> int:
        return _one_or_all(what, index, count).start

    def _cover(self, rows: range) -> Iterator[tuple[_Segment, range]]:
        """The segments that hold these rows, each with its own part of them."""
        for segment in self._segments:
            start, stop = max(rows.start, segment.start), min(rows.stop, segment.stop)
            if start < stop:
                yield segment, range(start - segment.start, stop - segment.start)

    @_reading()
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


class _Segment:
    """The rows that one call adds to a trace, with the statistics of them that are known so far."""

    def __init__(self, call: Call, start: int) -> None:
        self.call = call
        self.start = start
        tensors = {"queries": call.query, "keys": call.key}
        if isinstance(call.bias, Tensor):
            tensors["bias"] = call.bias
        if call.value is not None:
            tensors["values"] = call.value
        self._versions = {what: (tensor, tensor._version) for what, tensor in tensors.items()}
        self._digests = {what: _digest(tensor) for what, tensor in tensors.items()}
        self._mask_version = 0 if call.mask is None else call.mask.version()
        self._statistic: Tensor | None = call.statistic
        self._known: Tensor | None = None  # (B, H, Q), True where the statistic has been computed

    @property
    def stop(self) -> int:
        return self.start + self.call.shape[2]

    def tensors(self) -> Iterator[Tensor]:
        kept = (self.call.query, self.call.key, self.call.value, self.call.bias, self._statistic)
        yield from (tensor for tensor in kept if isinstance(tensor, Tensor))
        if self.call.mask is not None:
            yield from self.call.mask.tensors()

    def use_key(self, key: Float[Tensor, "B G K E"]) -> None:
        """Take the same keys from another memory."""
        self.call = replace(self.call, key=key)
        self._versions["keys"] = (key, key._version)  # the digest of the same numbers is the same

    def part(self, name: str, batch: range, heads: range) -> Call:
        changed = [
            what
            for what, (tensor, version) in self._versions.items()
            if tensor._version != version or self._is_rewritten(what, tensor, batch, heads)
        ]
        if self.call.mask is not None and self.call.mask.version() != self._mask_version:
            changed.append("mask tensor")
        if changed:
            raise StaleTraceError(
                f"The {' and '.join(changed)} of {name} changed in place after it was watched, so its weights can "
                "no longer be computed; read the trace before that, or watch again."
            )
        return self.call.part(batch, heads)

    def _is_rewritten(self, what: str, tensor: Tensor, batch: range, heads: range) -> bool:
        """Whether the part that is asked for was written to through ``.data``, of which its version does not tell."""
        group = max(1, self.call.shape[1] // max(1, tensor.shape[1]))
        cut = (
            slice(batch.start, batch.stop) if tensor.shape[0] > 1 else slice(None),
            slice(heads.start // group, (heads.stop - 1) // group + 1) if tensor.shape[1] > 1 else slice(None),
        )
        return not torch.equal(_digest(tensor[cut]), self._digests[what][cut])

    def statistics(self, rows: range, batch: range, heads: range) -> Shaped[Tensor, "B H Q 1"]:
        """The statistics of these rows, computed now if they are not known yet."""
        if self.call.statistic is None:
            self._compute(rows, batch, heads)
        assert self._statistic is not None
        return self._statistic[batch.start : batch.stop, heads.start : heads.stop, rows.start : rows.stop]

    def _compute(self, rows: range, batch: range, heads: range) -> None:
        call = self.call
        num_batch, num_heads, num_rows, num_columns = call.shape
        if self._statistic is None or self._known is None:
            device = call.query.device
            self._statistic = torch.zeros(num_batch, num_heads, num_rows, 1, dtype=_exact(call), device=device)
            self._known = torch.zeros(num_batch, num_heads, num_rows, dtype=torch.bool, device=device)
        width = call.score.pair_width(call.key.shape[-1])
        if num_batch * num_heads * num_rows * num_columns * width <= STATISTIC_LIMIT:
            rows, groups = range(num_rows), [(range(num_batch), range(num_heads))]
        else:
            groups = [(range(b, b + 1), range(h, h + 1)) for b in batch for h in heads]
        for one_batch, one_head in groups:
            cut = (slice(one_batch.start, one_batch.stop), slice(one_head.start, one_head.stop))
            missing = (~self._known[cut][..., rows.start : rows.stop]).flatten(0, 1).any(0).nonzero()
            if len(missing):
                todo = range(rows.start + int(missing[0]), rows.start + int(missing[-1]) + 1)
                part = call.part(one_batch, one_head)
                self._statistic[cut][:, :, todo.start : todo.stop] = row_statistics(part, todo)
                self._known[cut][..., todo.start : todo.stop] = True


def row_statistics(call: Call, rows: range) -> Shaped[Tensor, "B H Q 1"]:
    """The statistics of whole rows in float64, without ever holding more than ``STATISTIC_LIMIT`` scores."""
    batch, heads, _, num_columns = call.shape
    cost = batch * heads * call.score.pair_width(call.key.shape[-1])
    wide = max(1, min(num_columns, STATISTIC_COLUMNS // cost) if call.weights.merges else num_columns)
    tall = max(1, STATISTIC_LIMIT // max(1, cost * wide))
    parts = []
    for start in range(rows.start, rows.stop, tall):
        block = range(start, min(start + tall, rows.stop))
        span = call.span(block)
        total: Tensor | None = None
        for first in range(span.start, max(span.stop, span.start + 1), wide):
            columns = range(first, min(first + wide, span.stop))
            if len(columns):
                found = call.weights.statistic(call.scores(block, columns, _exact(call)))
            else:  # rows that may attend to nothing
                found = torch.zeros(batch, heads, len(block), 1, dtype=_exact(call), device=call.query.device)
            total = found if total is None else call.weights.merge(total, found)
        assert total is not None
        parts.append(total)
    return torch.cat(parts, dim=2)


def exact_weights(call: Call, statistic: Tensor, rows: range, columns: range) -> Float[Tensor, "B H Q K"]:
    """The weights of a tile from its scores and the statistics of its rows, in float64."""
    scores = call.scores(rows, columns, _exact(call))
    weights = call.weights.apply(scores, statistic, columns.start)
    return weights.masked_fill(scores == float("-inf"), 0.0) if call.has_rules_in(rows, columns) else weights


def keep(call: Call) -> Call:
    """A call as a trace may keep it: no graph, no view of a buffer that others write, no live parameters."""
    bias = call.bias
    if isinstance(bias, Tensor):
        bias = _kept(bias) if bias.is_inference() else bias.detach()
    return replace(
        call,
        query=_kept(call.query),
        key=_kept(call.key),
        value=None if call.value is None else _kept(call.value),
        score=call.score.frozen(_exact(call)),
        bias=bias,
    )


def _kept(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    owns_its_memory = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    if owns_its_memory and not tensor.is_inference():  # an inference tensor cannot say that it was changed
        return tensor
    with torch.inference_mode(False):
        return tensor.clone()


def _digest(tensor: Shaped[Tensor, "B H N D"]) -> Shaped[Tensor, "B H N"]:
    """The sums of the bits of each row: the same for the same numbers."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    with torch.inference_mode(False), torch.no_grad():
        return tensor.detach().view(whole).sum(-1, dtype=torch.int64)


def _same_memory(a: Tensor, b: Tensor) -> bool:
    return (a.data_ptr(), a.shape, a.stride(), a._version) == (b.data_ptr(), b.shape, b.stride(), b._version)


def _exact(call: Call) -> torch.dtype:
    return torch.float32 if call.query.device.type == "mps" else torch.float64  # mps has no float64


def _one_or_all(what: str, index: int | None, count: int) -> range:
    if index is None:
        return range(count)
    if not -count <= index < count:
        raise ShapeError(f"There is no {what} {index}; there are {count}, counted from 0.")
    index %= count
    return range(index, index + 1)


def _part(what: str, part: slice | range | Sequence[int], count: int) -> range:
    if isinstance(part, slice):
        start, stop, step = part.indices(count)
        part = range(start, max(start, stop), step)
    if not isinstance(part, range) or part.step != 1 or part.start < 0 or part.stop > count:
        raise ShapeError(f"A tile takes {what}s as a slice or range with step 1 within 0..{count}; not {part!r}.")
    return part
