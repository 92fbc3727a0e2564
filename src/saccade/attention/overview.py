"""The whole matrix of one head as a small picture, computed tile by tile from the exact weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from saccade.attention.equation import Call
from saccade.errors import OptionError, UnknownNameError

__all__ = ["Overview", "Progress", "Reduce"]

Reduce = Literal["mean", "max"]
Progress = Callable[[float], None]

#: The size of the tiles that are pooled, in weights (2 MB in float32: they stay in the processor's cache).
TILE_WEIGHTS = 1 << 19
TILE_COLUMNS = 2048


@dataclass(frozen=True)
class Overview:
    """A picture of one head: each cell the mean or the maximum of a rectangle of weights."""

    values: Float[Tensor, "rows columns"]
    cell: tuple[int, int]  # queries and keys that a cell stands for; the last row and column may hold fewer
    reduce: Reduce
    exact: bool  # False: a preview, which looked at one query of each row of cells

    @property
    def label(self) -> str:
        """What a cell is, in words that belong into the picture."""
        rows, columns = self.cell
        if self.cell == (1, 1):
            return "exact weights"
        return (
            f"{self.reduce} of {rows}×{columns} weights"
            if self.exact
            else (f"preview: {self.reduce} of 1×{columns} weights, one query in {rows}")
        )


def pool(
    parts: Sequence[tuple[range, Call]],
    statistic: Callable[[range], Shaped[Tensor, "1 1 Q 1"]],
    shape: tuple[int, ...],
    size: int,
    reduce: Reduce,
    preview: bool,
    progress: Progress | None,
) -> Overview:
    """Pool the weights of one head; ``parts`` are its calls with the rows that each holds."""
    if size < 1:
        raise OptionError(f"An overview has a size of at least 1; not {size}.")
    if reduce not in get_args(Reduce):
        raise UnknownNameError("reduction", reduce, get_args(Reduce))
    num_rows, num_columns = shape
    cell = (max(1, -(-num_rows // size)), max(1, -(-num_columns // size)))
    # Whole rows of cells at a time; a row of cells may be taller than a tile, so its parts are joined.
    pooled = _Pool(cell, (num_rows, num_columns), reduce, parts[0][1].query.device)
    for rows in _row_blocks(parts, cell[0], preview):
        owner = next((held, call) for held, call in parts if rows.start in held)
        pooled.add(rows, owner[0].start, owner[1], statistic(rows))
        if progress is not None:
            progress(rows.stop / num_rows)
    if progress is not None:
        progress(1.0)
    return Overview(pooled.result(preview), cell, reduce, exact=not preview or cell[0] == 1)


def _row_blocks(parts: Sequence[tuple[range, Call]], cell_rows: int, preview: bool) -> list[range]:
    """The rows to look at, in blocks that stay within one call."""
    blocks = []
    for held, call in parts:
        # A learned score holds a vector for each pair of query and key, so fewer pairs make a tile.
        tall = max(1, TILE_WEIGHTS // (TILE_COLUMNS * call.score.pair_width(call.key.shape[-1])))
        if preview and cell_rows > 1:
            first = -(-held.start // cell_rows) * cell_rows
            blocks += [range(row, row + 1) for row in range(first, held.stop, cell_rows)]
        else:
            blocks += [range(row, min(row + tall, held.stop)) for row in range(held.start, held.stop, tall)]
    return blocks


class _Pool:
    """Collects tiles of weights into cells."""

    def __init__(self, cell: tuple[int, int], shape: tuple[int, int], reduce: Reduce, device: torch.device) -> None:
        self.cell = cell
        self.shape = shape
        self.reduce = reduce
        self.total = torch.zeros(-(-shape[0] // cell[0]), -(-shape[1] // cell[1]), device=device)

    def add(self, rows: range, offset: int, call: Call, statistic: Tensor) -> None:
        local = range(rows.start - offset, rows.stop - offset)
        span = call.span(local)
        step = max(1, TILE_COLUMNS // self.cell[1]) * self.cell[1]  # whole cells at a time
        start = span.start // self.cell[1] * self.cell[1]
        for first in range(start, span.stop, step):
            columns = range(first, min(first + step, call.shape[3]))
            # (rows, cells): pooled along the row first, where memory is contiguous
            pooled = self._pool_columns(call, statistic, local, columns)
            cells = slice(first // self.cell[1], first // self.cell[1] + pooled.shape[1])
            self._join(rows, cells, pooled)

    def _pool_columns(self, call: Call, statistic: Tensor, rows: range, columns: range) -> Tensor:
        # A product in float32 is good enough for a pooled cell; a learned score was kept in float64.
        plain = call.query.dtype != torch.float64 and not isinstance(call.score, nn.Module)
        dtype = torch.float32 if plain else torch.float64
        scores = call.scores(rows, columns, dtype)
        if statistic.is_floating_point():
            statistic = statistic.to(dtype)
        if self.reduce == "max" and call.weights.monotone:
            # The largest weight of a row's part belongs to its largest score: one exponential a cell.
            scores = _fold(scores, self.cell[1], float("-inf")).amax(dim=-1)
            weights = call.weights.apply(scores, statistic)
        else:
            weights = call.weights.apply(scores, statistic, columns.start)
        if call.has_rules:  # a forbidden weight is exactly 0, also in a row that may attend to nothing
            weights = weights.masked_fill(scores == float("-inf"), 0.0)
        if self.reduce == "max":
            return weights[0, 0] if call.weights.monotone else _fold(weights, self.cell[1], 0.0).amax(-1)[0, 0]
        return _fold(weights, self.cell[1], 0.0).sum(dim=-1)[0, 0]

    def _join(self, rows: range, cells: slice, pooled: Tensor) -> None:
        target = self.total[:, cells]
        index = (torch.arange(rows.start, rows.stop, device=pooled.device) // self.cell[0]).unsqueeze(-1)
        reduce = "amax" if self.reduce == "max" else "sum"
        target.scatter_reduce_(0, index.expand_as(pooled), pooled.to(target.dtype), reduce)

    def result(self, preview: bool) -> Tensor:
        """The cells: sums are divided by how many weights each cell holds."""
        if self.reduce == "max":
            return self.total
        (cell_rows, cell_columns), (num_rows, num_columns) = self.cell, self.shape
        rows = _counts(num_rows, cell_rows) if not preview else torch.ones(self.total.shape[0])
        columns = _counts(num_columns, cell_columns)
        return self.total / (rows[:, None] * columns[None, :]).to(self.total.device)


def _fold(tile: Float[Tensor, "1 1 Q K"], cell: int, fill: float) -> Float[Tensor, "1 1 Q cells cell"]:
    """The columns of a tile in cells, the last one filled up."""
    missing = -tile.shape[-1] % cell
    tile = F.pad(tile, (0, missing), value=fill) if missing else tile
    return tile.reshape(*tile.shape[:-1], -1, cell)


def _counts(length: int, cell: int) -> Tensor:
    """How many positions each cell holds: the last may hold fewer."""
    starts = torch.arange(0, length, cell)
    return (length - starts).clamp(max=cell)
