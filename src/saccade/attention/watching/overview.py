"""The whole attention matrix of one head as a small picture, computed tile by tile from the exact weights.

Every weight is computed, in float32: a cell's relative error is about 1e-6 times the size of the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from saccade.attention.equation import Call
from saccade.attention.weights import Softmax
from saccade.errors import OptionError, UnknownNameError

__all__ = ["Overview", "Reduce", "ReportProgress", "progress_of_part"]

Reduce = Literal["mean", "max"]
ReportProgress = Callable[[float], None]

#: Number of weights in a tile (2 MB in float32, which stays in the processor's cache).
TILE_WEIGHTS = 1 << 19
TILE_COLUMNS = 2048


@dataclass(frozen=True)
class Overview:
    """A picture of one head, in which each cell is the mean or the maximum of a rectangle of weights."""

    values: Float[Tensor, "rows columns"]
    cell: tuple[int, int]  # number of queries and keys in a cell; the last row and column may hold fewer
    reduce: Reduce
    exact: bool  # False for a preview, which computes only one query for each row of cells

    @property
    def label(self) -> str:
        """What a cell shows, as a caption for the picture."""
        rows, columns = self.cell
        if self.cell == (1, 1):
            return "exact weights"
        if self.exact:
            return f"{self.reduce} of {rows}×{columns} weights"
        cells = f"each cell is the {self.reduce} of {columns} weights of one query"
        return f"preview: {cells}; only 1 query in {rows} is computed"


def progress_of_part(progress: ReportProgress | None, number: int, count: int) -> ReportProgress | None:
    """Return a function that takes the progress of part ``number`` of ``count`` equal parts, from 0 to 1, and reports
    the progress of the whole."""
    return None if progress is None else lambda done: progress((number + done) / count)


def pool(
    parts: Sequence[tuple[range, Call]],
    statistic: Callable[[range], Shaped[Tensor, "1 1 Q 1"]],
    shape: tuple[int, ...],
    size: int,
    reduce: Reduce,
    preview: bool,
    progress: ReportProgress | None,
) -> Overview:
    """Return an overview of the weights of one head; ``parts`` are its calls, each with the rows that it computed."""
    if size < 1:
        raise OptionError(f"An overview needs a size of at least 1, not {size}.")
    if reduce not in get_args(Reduce):
        raise UnknownNameError("reduction", reduce, get_args(Reduce))
    num_rows, num_columns = shape
    cell = (max(1, -(-num_rows // size)), max(1, -(-num_columns // size)))
    # A row of cells may be taller than a tile, so the parts of a cell are joined.
    pooled = _TilePool(cell, (num_rows, num_columns), reduce, parts[0][1].query.device)
    for rows in _row_blocks(parts, cell[0], preview):
        owner = next((held, call) for held, call in parts if rows.start in held)
        pooled.add(rows, owner[0].start, owner[1], statistic)
        if progress is not None:
            progress(rows.stop / num_rows)
    if progress is not None:
        progress(1.0)
    return Overview(pooled.result(preview), cell, reduce, exact=not preview or cell[0] == 1)


def _row_blocks(parts: Sequence[tuple[range, Call]], cell_rows: int, preview: bool) -> list[range]:
    """Return the rows to compute, in blocks that stay within one call."""
    blocks = []
    for held, call in parts:
        # A learned score holds a vector for each pair of query and key, so its tiles have fewer pairs.
        tall = max(1, TILE_WEIGHTS // (TILE_COLUMNS * call.score.pair_width(call.key.shape[-1])))
        if preview and cell_rows > 1:
            first = -(-held.start // cell_rows) * cell_rows
            blocks += [range(row, row + 1) for row in range(first, held.stop, cell_rows)]
        else:
            blocks += [range(row, min(row + tall, held.stop)) for row in range(held.start, held.stop, tall)]
    return blocks


class _TilePool:
    """Collects tiles of weights into cells."""

    def __init__(self, cell: tuple[int, int], shape: tuple[int, int], reduce: Reduce, device: torch.device) -> None:
        self.cell = cell
        self.shape = shape
        self.reduce = reduce
        self.total = torch.zeros(-(-shape[0] // cell[0]), -(-shape[1] // cell[1]), device=device)

    def add(self, rows: range, offset: int, call: Call, statistic: Callable[[range], Tensor]) -> None:
        local = range(rows.start - offset, rows.stop - offset)
        if type(call.weights) is Softmax:
            self._add_softmax(rows, local, call)
        else:
            self._add_weights(rows, local, call, statistic(rows))

    def _add_weights(self, rows: range, local: range, call: Call, statistic: Tensor) -> None:
        for columns in self._tiles(call, local):
            scores = call.scores(local, columns, _dtype(call))
            known = statistic.to(scores.dtype) if statistic.is_floating_point() else statistic
            weights = call.weights.apply(scores, known, columns.start)
            if call.has_rules_in(local, columns):  # a forbidden weight is 0, even if the whole row is forbidden
                weights = weights.masked_fill(scores == float("-inf"), 0.0)
            folded = _fold(weights, self.cell[1])
            self._join(rows, columns, folded.sum(-1) if self.reduce == "mean" else folded.amax(-1))

    def _add_softmax(self, rows: range, local: range, call: Call) -> None:
        """Pool each tile relative to its own largest scores and rescale at the end: one pass instead of two.

        If m is the largest score of a row in a tile and l the log-sum-exp of the whole row, which is known after the
        last tile, then exp(s - l) = exp(s - m) · exp(m - l).
        """
        tiles = list(self._tiles(call, local))
        if not tiles:
            return
        # Tensors that outlive a tile are allocated first: small tensors between large ones would fragment the heap.
        dtype, device = _dtype(call), call.query.device
        reach = range(tiles[0].start, tiles[-1].stop)
        cells = torch.empty(1, 1, len(local), -(-len(reach) // self.cell[1]), dtype=dtype, device=device)
        parts = torch.split(cells, -(-len(tiles[0]) // self.cell[1]), dim=-1)
        largest = torch.empty(len(tiles), 1, 1, len(local), 1, dtype=dtype, device=device)
        log_sum = torch.empty_like(largest)
        for tile, columns in enumerate(tiles):
            scores = call.scores(local, columns, dtype)
            # The largest score of a row with no allowed key is -inf; a finite number keeps its shares at 0.
            largest[tile] = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(dtype).min)
            folded = _fold((scores - largest[tile]).exp_(), self.cell[1])
            sums = folded.sum(-1)
            log_sum[tile] = largest[tile] + sums.sum(-1, keepdim=True).log()
            parts[tile].copy_(sums if self.reduce == "mean" else folded.amax(-1))
        total = log_sum.logsumexp(0)
        for tile, factor in enumerate(torch.exp(largest - total).masked_fill(total == float("-inf"), 0.0)):
            parts[tile].mul_(factor)
        self._join(rows, reach, cells)

    def _tiles(self, call: Call, rows: range) -> Iterator[range]:
        """Yield the columns that these rows can reach, whole cells at a time."""
        span = call.span(rows)
        step = max(1, TILE_COLUMNS // self.cell[1]) * self.cell[1]
        for first in range(span.start // self.cell[1] * self.cell[1], span.stop, step):
            yield range(first, min(first + step, call.shape[3]))

    def _join(self, rows: range, columns: range, pooled: Float[Tensor, "1 1 Q cells"]) -> None:
        first = columns.start // self.cell[1]
        target = self.total[:, first : first + pooled.shape[-1]]
        index = (torch.arange(rows.start, rows.stop, device=pooled.device) // self.cell[0]).unsqueeze(-1)
        reduce = "amax" if self.reduce == "max" else "sum"
        target.scatter_reduce_(0, index.expand_as(pooled[0, 0]), pooled[0, 0].to(target.dtype), reduce)

    def result(self, preview: bool) -> Tensor:
        """Return the cells, dividing sums by the number of weights in each cell."""
        if self.reduce == "max":
            return self.total
        (cell_rows, cell_columns), (num_rows, num_columns) = self.cell, self.shape
        rows = _counts(num_rows, cell_rows) if not preview else torch.ones(self.total.shape[0])
        columns = _counts(num_columns, cell_columns)
        return self.total / (rows[:, None] * columns[None, :]).to(self.total.device)


def _dtype(call: Call) -> torch.dtype:
    # A product in float32 is accurate enough for a pooled cell; a learned score was kept in float64.
    is_plain = call.query.dtype != torch.float64 and not isinstance(call.score, nn.Module)
    is_plain = is_plain and not call.weights.needs_double
    return torch.float32 if is_plain else torch.float64


def _fold(tile: Float[Tensor, "1 1 Q K"], cell: int) -> Float[Tensor, "1 1 Q cells cell"]:
    """Group the columns of a tile into cells, padding the last cell with zeros."""
    missing = -tile.shape[-1] % cell
    tile = F.pad(tile, (0, missing)) if missing else tile
    return tile.reshape(*tile.shape[:-1], -1, cell)


def _counts(length: int, cell: int) -> Tensor:
    """Return how many positions each cell holds; the last may hold fewer."""
    starts = torch.arange(0, length, cell)
    return (length - starts).clamp(max=cell)
