"""Heat maps as matplotlib figures: the weights with their tokens on both axes, for PNG, SVG and PDF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from saccade.errors import OptionError, ShapeError, TooLargeError
from saccade.lens.figures.canvas import GAP, MARGIN, drawing, label
from saccade.lens.figures.panel import (
    FEW_TOKENS,
    SCALE_HEIGHT,
    SCALE_WIDTH,
    SCALE_WIDTH_WITH_GOLD,
    Panel,
    Places,
    Scale,
    places,
    weight_text,
)
from saccade.lens.links import WordLink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_matrix", "heatmap"]

Array = NDArray[np.float64]

#: The most rows or columns that can be drawn with their tokens.
MOST_TOKENS = 400


def heatmap(
    weights: Float[Tensor, "T S"] | Float[np.ndarray, "T S"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str | None = None,
    gold: Iterable[WordLink] | None = None,
    dark: bool = False,
    values: bool | None = None,
) -> Figure:
    """Weights as shaded cells, on the one scale from background (0) to ink (1).

    ``gold`` are links to outline, as (source, target), that is (column, row). ``values`` writes the numbers into the
    cells, rounded, those below 0.005 left blank; if not given, it does so where there are few tokens.
    """
    matrix = _checked(weights, rows, columns)
    return draw_matrix(
        matrix,
        places([label(token) for token in rows]),
        places([label(token) for token in columns]),
        Scale(),
        title=title,
        gold=checked_links(gold, matrix.shape),
        dark=dark,
        values=values,
    )


def draw_matrix(
    matrix: Array,
    rows: Places,
    columns: Places,
    scale: Scale,
    *,
    title: str | None,
    gold: Sequence[WordLink] | None = None,
    dark: bool = False,
    values: bool | None = None,
) -> Figure:
    """A title, a matrix with its labels, and the scale under it."""
    few = max(matrix.shape) <= FEW_TOKENS
    write = (lambda value: f"{value:+.2f}" if abs(value) >= 0.005 else "") if scale.differences else weight_text
    with drawing(dark=dark) as page:
        panel = Panel(page, matrix, rows, columns)
        title_width, title_height = page.measure_title(title)
        left, top = MARGIN + panel.left, MARGIN + title_height + panel.header
        right = max(
            left + max(panel.reach, SCALE_WIDTH if gold is None else SCALE_WIDTH_WITH_GOLD), MARGIN + title_width
        )
        below = top + panel.height + 3 * GAP
        page.resize(right + MARGIN, below + SCALE_HEIGHT + MARGIN)
        panel.draw(left, top, scale, numbers=write if (few if values is None else values) else None, gold=gold or ())
        page.write_title(title)
        largest = float(np.abs(matrix).max()) if matrix.size else 0.0
        scale.draw(page, left, below, largest, gold=gold is not None)
    return page.figure


def checked_links(gold: Iterable[WordLink] | None, shape: tuple[int, ...]) -> list[WordLink] | None:
    if gold is None:
        return None
    links = sorted(gold)
    num_rows, num_columns = shape
    for column, row in links:
        if not (0 <= column < num_columns and 0 <= row < num_rows):
            raise OptionError(f"The gold link {column}-{row} is outside of {num_columns} columns and {num_rows} rows.")
    return links


def _checked(weights: Tensor | np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> Array:
    matrix: Array = torch.as_tensor(weights).detach().cpu().double().numpy()
    if matrix.shape != (len(rows), len(columns)):
        raise ShapeError(
            f"A heat map of {len(rows)} rows and {len(columns)} columns needs weights of that shape; "
            f"not {tuple(matrix.shape)}."
        )
    if max(matrix.shape) > MOST_TOKENS:
        raise TooLargeError(
            f"A heat map shows at most {MOST_TOKENS} tokens a side; not {matrix.shape[0]} by {matrix.shape[1]}. Draw a "
            "part of it."
        )
    strange = matrix[~(np.isfinite(matrix) & (matrix >= 0))]
    if strange.size:
        raise OptionError(f"A heat map shows weights, finite numbers from 0; not {strange[0]}.")
    return matrix
