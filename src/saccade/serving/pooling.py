"""Pooled pictures of attention matrices that are too large to send: each cell is the maximum or mean of its weights.

On the Map page, users zoom into a matrix, so parts of it are needed at many scales. A large matrix is pooled once, into
cells that are fine enough for all scales but the finest, and cached. Coarser pictures are computed exactly from these
cells, finer ones from the weights.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from saccade.attention import Overview
from saccade.attention.watching.overview import Reduce, ReportProgress
from saccade.errors import OptionError, TooLargeError
from saccade.lens.measures import reduce_heads
from saccade.lens.view import Head, View

__all__ = ["PooledWeights", "Pyramid", "pool"]

#: The most weights that one picture is computed from.
WEIGHTS = 1 << 24
#: Up to this many weights, a picture is always computed from the weights themselves.
SMALL = 1 << 20
#: Number of weights between two checks whether the client still waits for the picture.
BAND = 1 << 19
#: The most cells along each side of a cached picture (64 MB).
BASE = 4096
#: How many pictures are cached for each look.
KEPT = 3
#: With more rows than this, the small pictures of all heads are computed from a sample of rows.
LONG = 2048


class PooledWeights(NamedTuple):
    """Pooled weights, and how many queries and keys one cell covers."""

    values: Float[Tensor, "R C"]
    cell: tuple[int, int]


class Pyramid:
    """Pictures of any part of a view's attentions, at any scale."""

    def __init__(self, view: View, progress: ReportProgress | None = None) -> None:
        self.view = view
        self.share = 1.0  # how much of the current picture is done
        self._progress = progress  # called with that share
        self._wholes: OrderedDict[tuple[str, Head, Reduce], Overview] = OrderedDict()
        self._lock = threading.Lock()

    def progress(self, share: float) -> None:
        self.share = share
        if self._progress is not None:
            self._progress(share)

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(4 * whole.values.numel() for whole in self._wholes.values())

    def picture(
        self, name: str, head: Head, rows: range, columns: range, cell: tuple[int, int], reduce: Reduce
    ) -> PooledWeights:
        """Return a part of an attention matrix, pooled into cells that cover this many queries and keys."""
        count = len(rows) * len(columns)
        is_of_weights = count <= WEIGHTS and isinstance(head, str) and head != reduce
        if count > SMALL and not is_of_weights:
            side = self._side(name)  # pooling the whole matrix takes seconds, so we do it only where it helps
            if _fits(rows, columns, cell, side):
                whole = self._whole(name, head, reduce)
                return PooledWeights(_coarser(whole, self._shape(name), rows, columns, cell), cell)
            if count > WEIGHTS:
                raise TooLargeError(
                    f"{len(rows):,} by {len(columns):,} weights in cells of {cell[0]} by {cell[1]} are too many; "
                    f"request fewer, or cells whose size and start are multiples of {max(side)}."
                )
        return PooledWeights(self._from_weights(name, head, rows, columns, cell, reduce), cell)

    def whole(self, name: str, head: Head, cells: int, reduce: Reduce) -> PooledWeights:
        """Return a whole attention matrix, pooled into at most ``cells`` by ``cells`` numbers."""
        num_rows, num_columns = self._shape(name)
        cell = -(-num_rows // cells), -(-num_columns // cells)
        rows, columns = range(num_rows), range(num_columns)
        _check_pool(head, reduce)
        if _fits(rows, columns, cell, self._side(name)):
            found = self._whole(name, head, reduce)
            return PooledWeights(_coarser(found, (num_rows, num_columns), rows, columns, cell), cell)
        made = self.view.overview(name, head, cells, reduce, self.progress)
        return PooledWeights(made.values, made.cell)

    def preview(self, name: str, head: Head, cells: int, reduce: Reduce) -> Overview:
        """Return a quick first picture of a whole attention matrix, computed from one query for each row of cells."""
        _check_pool(head, reduce)
        numbers = [head] if isinstance(head, int) else range(self.view.heads(name))
        parts = [self._all_of(name, number, cells, reduce, preview=True) for number in numbers]
        return replace(parts[0], values=reduce_heads((part.values for part in parts), reduce))

    def heads(self, name: str, cells: int) -> tuple[Float[Tensor, "H R C"], Overview]:
        """Return small pictures of all heads: the largest weight in each cell; of a long matrix, a sample of rows."""
        num_heads, is_long = self.view.heads(name), self._shape(name)[0] > LONG
        parts = [self._all_of(name, head, cells, "max", preview=is_long) for head in range(num_heads)]
        return torch.stack([part.values for part in parts]), parts[0]

    def _all_of(self, name: str, head: int, cells: int, reduce: Reduce, *, preview: bool) -> Overview:
        self.view.axes(name)  # refuses an unknown name
        return self.view.traces[name].overview(
            cells, reduce, head=head, batch=self.view.batch, preview=preview, progress=self.progress
        )

    def _shape(self, name: str) -> tuple[int, int]:
        rows, columns = self.view.axes(name)
        return len(rows), len(columns)

    def _from_weights(
        self, name: str, head: Head, rows: range, columns: range, cell: tuple[int, int], reduce: Reduce
    ) -> Float[Tensor, "R C"]:
        """Compute a picture from the weights, a few rows of cells at a time, so that the computation stops soon after
        the client has disconnected."""
        tall = cell[0] * max(1, BAND // (cell[0] * len(columns)))
        parts = []
        for first in range(rows.start, rows.stop, tall):
            band = range(first, min(first + tall, rows.stop))
            parts.append(pool(self.view.tile(name, head, band, columns), cell, reduce))
            self.progress((band.stop - rows.start) / len(rows))
        return torch.cat(parts)

    def _cells(self, name: str) -> int:
        """The number of cells along each axis of a cached picture. The side of a cell is the smallest power of 2 that
        gives at most ``BASE`` cells."""
        longest = max(self._shape(name))
        side = 1
        while longest > BASE * side:
            side *= 2
        return -(-longest // side)

    def _side(self, name: str) -> tuple[int, int]:
        """Size of the cached cells in queries and keys."""
        num_rows, num_columns = self._shape(name)
        cells = self._cells(name)
        return -(-num_rows // cells), -(-num_columns // cells)

    def _whole(self, name: str, head: Head, reduce: Reduce) -> Overview:
        """Pool a whole attention into cells from which coarser cells can be computed. The result is cached."""
        _check_pool(head, reduce)
        key = (name, head, reduce)
        with self._lock:
            if key in self._wholes:
                self._wholes.move_to_end(key)
                return self._wholes[key]
        self.progress(0.0)
        made = self.view.overview(name, head, self._cells(name), reduce, self.progress)
        with self._lock:
            self._wholes[key] = made
            while len(self._wholes) > KEPT:
                self._wholes.popitem(last=False)
        return made


def pool(tile: Float[Tensor, "Q K"], cell: tuple[int, int], reduce: Reduce) -> Float[Tensor, "R C"]:
    """Return the maximum or mean of each cell of weights; the last cells of a row or column may be smaller."""
    pooling = F.max_pool2d if reduce == "max" else F.avg_pool2d
    pooled: Tensor = pooling(tile[None, None].float(), cell, cell, ceil_mode=True)
    return pooled[0, 0]


def _check_pool(head: Head, reduce: Reduce) -> None:
    if isinstance(head, str) and head != reduce:
        raise OptionError(
            f"The {head} of all heads can only be pooled with pool = {head}; pool = {reduce} needs a single head."
        )


def _fits(rows: range, columns: range, cell: tuple[int, int], base: tuple[int, int]) -> bool:
    """Whether the cells consist of whole cached cells."""
    multiples = all(size % least == 0 for size, least in zip(cell, base, strict=True))
    return multiples and rows.start % base[0] == 0 and columns.start % base[1] == 0


def _coarser(
    whole: Overview, shape: tuple[int, int], rows: range, columns: range, cell: tuple[int, int]
) -> Float[Tensor, "R C"]:
    """Combine cells into coarser cells. A mean is weighted by the number of weights in a cell, smaller at the edges."""
    tall, wide = whole.cell
    cut = (slice(rows.start // tall, -(-rows.stop // tall)), slice(columns.start // wide, -(-columns.stop // wide)))
    factor = (cell[0] // tall, cell[1] // wide)
    if whole.reduce == "max":
        return pool(whole.values[cut], factor, "max")
    counts = _counts(shape[0], tall)[cut[0], None] * _counts(shape[1], wide)[None, cut[1]]
    # Both are means over the same cells, so their number cancels.
    return pool(whole.values[cut] * counts, factor, "mean") / pool(counts, factor, "mean")


def _counts(length: int, cell: int) -> Float[Tensor, " cells"]:
    return (length - torch.arange(0, length, cell)).clamp(max=cell).float()
