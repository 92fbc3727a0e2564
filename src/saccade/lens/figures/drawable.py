"""The weights that a figure draws: single weights, or for long inputs an overview, whose cells combine many weights."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from saccade.attention import Overview
from saccade.attention.watching.overview import ReportProgress
from saccade.attention.watching.trace import WEIGHTS_LIMIT
from saccade.errors import OptionError
from saccade.lens.colours import Array
from saccade.lens.view import Head, View

__all__ = ["MOST_TOKENS", "Array", "as_array", "scale_end", "weights_to_draw"]

#: Maximum number of tokens per side drawn weight by weight; longer inputs are drawn as an overview of this size.
MOST_TOKENS = 200


def as_array(values: Tensor) -> Array:
    """Convert numbers to float64 for matplotlib, which represents every float32 exactly."""
    array: Array = values.detach().cpu().double().numpy()
    return array


def weights_to_draw(view: View, name: str, head: Head, words: bool, progress: ReportProgress | None) -> Overview:
    """Return every single weight if there are at most `MOST_TOKENS` tokens per side, otherwise an overview.

    A cell of an overview is the mean or maximum of a block of weights.
    """
    rows, columns = view.axes(name)
    if max(rows.size(words), columns.size(words)) <= MOST_TOKENS:
        return Overview(view.matrix(name, head, words=words), (1, 1), "max", exact=True)
    if words and (rows.num_words, columns.num_words) != (len(rows), len(columns)):
        return _of_words(view, name, head)
    return view.overview(name, head, MOST_TOKENS, progress=progress)


def _of_words(view: View, name: str, head: Head) -> Overview:
    """Compute all weights between words, and return an overview of them."""
    rows, columns = view.axes(name)
    if len(rows) * len(columns) > WEIGHTS_LIMIT:
        raise OptionError(
            f"The {len(rows):,} by {len(columns):,} weights of {name} are too many to merge into words; the limit is "
            f"{WEIGHTS_LIMIT:,}. Draw them with words=False."
        )
    weights = view.matrix(name, head, words=True)
    cell = -(-len(weights) // MOST_TOKENS), -(-weights.shape[1] // MOST_TOKENS)
    if head == "mean":  # a cell at the edge is the mean of the fewer weights it holds
        return Overview(F.avg_pool2d(weights[None], cell, ceil_mode=True)[0], cell, "mean", exact=True)
    return Overview(F.max_pool2d(weights[None], cell, ceil_mode=True)[0], cell, "max", exact=True)


def scale_end(scale: float | None, values: Array) -> float:
    """Return the number drawn in the strongest colour: ``scale``, or the largest of ``values`` if ``scale`` is None."""
    if scale is not None:
        if not scale > 0:
            raise OptionError(f"scale must be above 0, not {scale}.")
        return scale
    largest = float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0
    return largest if largest > 0 else 1.0
