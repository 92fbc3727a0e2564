"""Pictures of parts that are too large to send: cells of equal size, each the maximum or mean of its weights.

A map asks for parts at many scales. The whole of a long attention is pooled once, into cells that are small enough for
all scales but the finest, and kept; coarser pictures follow from these cells exactly, finer ones from the weights.
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
from saccade.attention.watching.overview import Progress, Reduce
from saccade.errors import OptionError, TooLargeError
from saccade.lens.measures import reduce_heads
from saccade.lens.view import Head, View

__all__ = ["Picture", "Pyramid", "pool"]

#: The most weights that are looked at for one picture of a part.
WEIGHTS = 1 << 24
#: Parts of no more weights than these are always made from the weights themselves.
SMALL = 1 << 20
#: Weights after which it is asked whether to go on.
BAND = 1 << 19
#: Cells along a side of what is kept of a whole attention (64 MB).
BASE = 4096
#: Wholes that are kept of one look.
KEPT = 3
#: Rows of an attention above which small pictures of heads look at some rows only.
LONG = 2048


class Picture(NamedTuple):
    """Pooled weights, and the queries and keys that a cell stands for."""

    values: Float[Tensor, "R C"]
    cell: tuple[int, int]


class Pyramid:
    """Pictures of any part of the attentions of one view, at any scale."""

    def __init__(self, view: View, progress: Progress | None = None) -> None:
        self.view = view
        self.share = 1.0  # of the picture that is being made
        self._progress = progress  # told how much of a picture is done
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
    ) -> Picture:
        """A part in cells of so many queries by so many keys."""
        count = len(rows) * len(columns)
        is_of_weights = count <= WEIGHTS and isinstance(head, str) and head != reduce
        if count > SMALL and not is_of_weights:
            side = self._side(name)  # the whole takes seconds, so it is made only where it helps
            if _fits(rows, columns, cell, side):
                whole = self._whole(name, head, reduce)
                return Picture(_coarser(whole, self._shape(name), rows, columns, cell), cell)
            if count > WEIGHTS:
                raise TooLargeError(
                    f"{len(rows):,} by {len(columns):,} weights in cells of {cell[0]} by {cell[1]} are too many; cells "
                    f"of multiples of {max(side)}, beginning at such multiples, are taken of any part."
                )
        return Picture(self._from_weights(name, head, rows, columns, cell, reduce), cell)

    def whole(self, name: str, head: Head, cells: int, reduce: Reduce) -> Picture:
        """All of an attention in at most cells by cells."""
        num_rows, num_columns = self._shape(name)
        cell = -(-num_rows // cells), -(-num_columns // cells)
        rows, columns = range(num_rows), range(num_columns)
        _check_pool(head, reduce)
        if _fits(rows, columns, cell, self._side(name)):
            found = self._whole(name, head, reduce)
            return Picture(_coarser(found, (num_rows, num_columns), rows, columns, cell), cell)
        made = self.view.overview(name, head, cells, reduce, self.progress)
        return Picture(made.values, made.cell)

    def preview(self, name: str, head: Head, cells: int, reduce: Reduce) -> Overview:
        """All of an attention, of which one query for each row of cells is looked at: there at once, to begin with."""
        _check_pool(head, reduce)
        numbers = [head] if isinstance(head, int) else range(self.view.heads(name))
        parts = [self._all_of(name, number, cells, reduce, preview=True) for number in numbers]
        return replace(parts[0], values=reduce_heads((part.values for part in parts), reduce))

    def heads(self, name: str, cells: int) -> tuple[Float[Tensor, "H R C"], Overview]:
        """All heads of one attention as small pictures of their largest weights; of a long one, of some of its rows."""
        num_heads, is_long = self.view.heads(name), self._shape(name)[0] > LONG
        parts = [self._all_of(name, head, cells, "max", preview=is_long) for head in range(num_heads)]
        return torch.stack([part.values for part in parts]), parts[0]

    def _all_of(self, name: str, head: int, cells: int, reduce: Reduce, *, preview: bool) -> Overview:
        self.view.axes(name)  # refuses a name that is not there
        return self.view.traces[name].overview(
            cells, reduce, head=head, batch=self.view.batch, preview=preview, progress=self.progress
        )

    def _shape(self, name: str) -> tuple[int, int]:
        rows, columns = self.view.axes(name)
        return len(rows), len(columns)

    def _from_weights(
        self, name: str, head: Head, rows: range, columns: range, cell: tuple[int, int], reduce: Reduce
    ) -> Float[Tensor, "R C"]:
        """Some rows of cells at a time, so that it ends soon where nobody waits for it any more."""
        tall = cell[0] * max(1, BAND // (cell[0] * len(columns)))
        parts = []
        for first in range(rows.start, rows.stop, tall):
            band = range(first, min(first + tall, rows.stop))
            parts.append(pool(self.view.tile(name, head, band, columns), cell, reduce))
            self.progress((band.stop - rows.start) / len(rows))
        return torch.cat(parts)

    def _cells(self, name: str) -> int:
        """Along the whole of an attention, where the side of a cell is the least power of 2 that leaves ``BASE``."""
        longest = max(self._shape(name))
        side = 1
        while longest > BASE * side:
            side *= 2
        return -(-longest // side)

    def _side(self, name: str) -> tuple[int, int]:
        """Of the cells of the whole: queries and keys."""
        num_rows, num_columns = self._shape(name)
        cells = self._cells(name)
        return -(-num_rows // cells), -(-num_columns // cells)

    def _whole(self, name: str, head: Head, reduce: Reduce) -> Overview:
        """All of an attention in cells from which coarser ones follow, made once."""
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
    """The last cells of a row or column may stand for fewer weights than the others."""
    pooling = F.max_pool2d if reduce == "max" else F.avg_pool2d
    pooled: Tensor = pooling(tile[None, None].float(), cell, cell, ceil_mode=True)
    return pooled[0, 0]


def _check_pool(head: Head, reduce: Reduce) -> None:
    if isinstance(head, str) and head != reduce:
        raise OptionError(f"The {head} of all heads has cells that are its {head}; pool = {reduce} is of one head.")


def _fits(rows: range, columns: range, cell: tuple[int, int], base: tuple[int, int]) -> bool:
    """Whether cells of a part are whole cells of what is kept."""
    multiples = all(size % least == 0 for size, least in zip(cell, base, strict=True))
    return multiples and rows.start % base[0] == 0 and columns.start % base[1] == 0


def _coarser(
    whole: Overview, shape: tuple[int, int], rows: range, columns: range, cell: tuple[int, int]
) -> Float[Tensor, "R C"]:
    """Cells of cells. A mean weighs each by the weights that it stands for, which are fewer at the ends."""
    tall, wide = whole.cell
    cut = (slice(rows.start // tall, -(-rows.stop // tall)), slice(columns.start // wide, -(-columns.stop // wide)))
    factor = (cell[0] // tall, cell[1] // wide)
    if whole.reduce == "max":
        return pool(whole.values[cut], factor, "max")
    counts = _counts(shape[0], tall)[cut[0], None] * _counts(shape[1], wide)[None, cut[1]]
    # Both are means of the same cells, so that how many there are cancels.
    return pool(whole.values[cut] * counts, factor, "mean") / pool(counts, factor, "mean")


def _counts(length: int, cell: int) -> Float[Tensor, " cells"]:
    return (length - torch.arange(0, length, cell)).clamp(max=cell).float()
