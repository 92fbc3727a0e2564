"""Pictures of parts that are too large to send: cells of equal size, each the maximum or mean of its weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from saccade.attention.overview import Reduce
from saccade.errors import OptionError, TooLargeError
from saccade.lens.view import Head, View

__all__ = ["pooled_heads", "pooled_part"]

#: The most weights that are looked at for one picture of a part; the whole of a long text is pooled block by block.
WEIGHTS = 1 << 24


def pooled_part(
    view: View, name: str, head: Head, rows: range, columns: range, cells: int, reduce: Reduce, size: int | None = None
) -> tuple[Float[Tensor, "R C"], tuple[int, int]]:
    """A part as at most cells by cells numbers, and the weights that a cell stands for: (queries, keys).

    With a ``size``, a cell has so many queries and keys whatever the part, so that parts can be laid side by side.
    """
    num_rows, num_columns = (len(axis) for axis in view.axes(name))
    if size is None and (len(rows), len(columns)) == (num_rows, num_columns):
        if isinstance(head, str) and head != reduce:
            raise OptionError(f"The {head} of all heads has cells that are its {head}; pool = {reduce} is of one head.")
        whole = view.overview(name, head, cells, reduce)
        return whole.values, whole.cell
    if len(rows) * len(columns) > WEIGHTS:
        raise TooLargeError(
            f"{len(rows):,} by {len(columns):,} weights are a large part; ask for all, or for at most {WEIGHTS:,}."
        )
    cell = (size, size) if size else (-(-len(rows) // cells), -(-len(columns) // cells))
    return pool(view.tile(name, head, rows, columns), cell, reduce), cell


def pooled_heads(view: View, name: str, cells: int) -> tuple[Float[Tensor, "H R C"], tuple[int, int]]:
    """All heads of one attention as small pictures of their largest weights."""
    parts = [view.overview(name, head, cells, "max") for head in range(view.heads(name))]
    return torch.stack([part.values for part in parts]), parts[0].cell


def pool(tile: Float[Tensor, "Q K"], cell: tuple[int, int], reduce: Reduce) -> Float[Tensor, "R C"]:
    """The last cells of a row or column may stand for fewer weights than the others."""
    pooling = F.max_pool2d if reduce == "max" else F.avg_pool2d
    pooled: Tensor = pooling(tile[None, None].float(), cell, cell, ceil_mode=True)
    return pooled[0, 0]
