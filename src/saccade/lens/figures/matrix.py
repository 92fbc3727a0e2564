"""Draw a matrix of cells with labels and a colour scale below it, the building block of most figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import OptionError, ShapeError, TooLargeError
from saccade.lens.colours import contrast
from saccade.lens.figures.canvas import GAP, LABEL_SIZE, SMALL_SIZE, Canvas, drawing, label
from saccade.lens.figures.drawable import Array
from saccade.lens.links import WordLink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Panel", "Scale", "draw_matrix", "draw_weights", "places"]

LabelPlaces = Sequence[tuple[float, str]]  # labels, each with its position along the side, counted in cells

#: Maximum number of rows or columns that can be drawn with their tokens.
MOST_LABELLED = 400
#: Maximum number of rows or columns for which the numbers are written into the cells.
FEW_TOKENS = 13

_LARGEST_CELL, _SMALL_CELL, _SMALLEST_LABELLED = 0.5, 0.24, 0.12  # inches
_SMALL_MATRIX, _LARGE_MATRIX = 6.0, 14.4
_SMALLEST_LABEL = 6.0  # points
_NUMBER_SIZE = 8.0
_TILT = 45
_BAR_WIDTH, _BAR_HEIGHT = 1.5, 0.11
SCALE_HEIGHT = _BAR_HEIGHT + 3.5 * GAP
_MOST_DRAWN_CELLS = 5000  # with more, an SVG or PDF holds one image instead of a shape for each cell


def cell_size(count: int) -> float:
    """Return the width of a cell in inches, which shrinks with the number of cells so that the matrix fits a page."""
    if count * _SMALL_CELL <= _LARGE_MATRIX:
        return min(_LARGEST_CELL, max(_SMALL_CELL, _SMALL_MATRIX / max(1, count)))
    return _LARGE_MATRIX / count


def places(labels: Sequence[str]) -> LabelPlaces:
    """Return each label with its position, the middle of its cell, counted in cells."""
    return [(number + 0.5, text) for number, text in enumerate(labels)]


@dataclass(frozen=True)
class Scale:
    """The range of numbers that the colours cover: 0 to ``high``, or -``high`` to ``high`` for differences."""

    high: float = 1.0
    differences: bool = False
    name: str = "weight"

    @property
    def low(self) -> float:
        return -self.high if self.differences else 0.0

    def colours(self, *, dark: bool) -> dict[str, Any]:
        from matplotlib.colors import Normalize

        from saccade.lens.figures.artists import colormap

        return {"cmap": colormap(dark=dark, differences=self.differences), "norm": Normalize(self.low, self.high)}

    def draw(self, page: Canvas, left: float, top: float, largest: float = 0.0, *, gold: bool = False) -> None:
        """Draw a colour bar that says which number each shade means, with its top left corner at this position."""
        from matplotlib.patches import Rectangle

        axes = page.axes(left, top, _BAR_WIDTH, _BAR_HEIGHT)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        steps = 50
        edges, shades = np.linspace(0, 1, steps + 1), np.linspace(self.low, self.high, steps)[None]
        bar = axes.pcolormesh(edges, np.array([0.0, 1.0]), shades, **self.colours(dark=page.dark))
        bar.set(edgecolor="face", linewidth=0.8)
        frame = Rectangle((0, 0), 1, 1, fill=False, edgecolor=page.colours.text, linewidth=0.6, clip_on=False)
        axes.add_patch(frame)
        past = "≥ " if largest > self.high * (1 + 1e-6) else ""
        for place, value in ((0.0, self.low), (0.5, (self.low + self.high) / 2), (1.0, self.high)):
            text = f"{past if place == 1 else ''}{value:.3g}"
            page.write_in(axes, place, -0.35, text, SMALL_SIZE, ha="center", va="top")
        page.write_in(axes, 1.08, 0.5, self.name, SMALL_SIZE)
        if gold:
            square = Rectangle((1.5, 0), _BAR_HEIGHT / _BAR_WIDTH, 1, fill=False, edgecolor=page.colours.gold)
            square.set(linewidth=1.4, clip_on=False)
            axes.add_patch(square)
            page.write_in(axes, 1.62, 0.5, "gold", SMALL_SIZE)


class Panel:
    """A matrix with labels on the left and on top; all sizes are in inches."""

    def __init__(
        self,
        page: Canvas,
        matrix: Array,
        rows: LabelPlaces,
        columns: LabelPlaces,
        cell: tuple[float, float] | None = None,
    ) -> None:
        self.page, self.matrix = page, matrix
        num_rows, num_columns = matrix.shape
        square = cell_size(max(num_rows, num_columns))
        # The short side of a long and narrow matrix stays legible.
        self.cell_width, self.cell_height = cell or (
            max(square, min(_SMALLEST_LABELLED, cell_size(num_columns))),
            max(square, min(_SMALLEST_LABELLED, cell_size(num_rows))),
        )
        self.rows, self.row_size = _thinned(rows, self.cell_height)
        self.columns, self.column_size = _thinned(columns, self.cell_width)
        self.width, self.height = num_columns * self.cell_width, num_rows * self.cell_height

        flat = max((page.measure(text, self.column_size)[0] for _, text in self.columns), default=0.0)
        apart = [after - place for (place, _), (after, _) in pairwise(self.columns)]
        spacing = self.cell_width * min(apart, default=1.0)
        self.tilt = 0 if flat <= spacing - GAP else _TILT if spacing >= _SMALL_CELL - 1e-9 else 90
        self.left = max((page.measure(text, self.row_size)[0] for _, text in self.rows), default=0.0) + GAP

    def draw(
        self,
        left: float,
        top: float,
        scale: Scale,
        *,
        numbers: Callable[[float], str] | None = None,
        gold: Iterable[WordLink] = (),
        row_labels: bool = True,
    ) -> Axes:
        """Draw the matrix with its top left corner at this position.

        ``numbers`` turns a value into the text written into its cell; None leaves the cells without text.
        """
        from matplotlib.patches import Rectangle

        axes = self.page.axes(left, top, self.width, self.height)
        num_rows, num_columns = self.matrix.shape
        axes.set(xlim=(0, max(1, num_columns)), ylim=(max(1, num_rows), 0))
        if self.matrix.size:
            edges = np.arange(num_columns + 1), np.arange(num_rows + 1)
            mesh = axes.pcolormesh(*edges, self.matrix, **scale.colours(dark=self.page.dark))
            thin = min(self.cell_width, self.cell_height)
            mesh.set(edgecolor=self.page.colours.grid, linewidth=thin if thin >= _SMALLEST_LABELLED else 0)
            mesh.set(clip_on=False, rasterized=self.matrix.size > _MOST_DRAWN_CELLS)
        self._draw_labels(axes, row_labels)
        if numbers is not None:
            self._draw_numbers(axes, scale, numbers)
        for column, row in gold:
            outline = Rectangle((column + 0.06, row + 0.06), 0.88, 0.88, fill=False, edgecolor=self.page.colours.gold)
            outline.set_linewidth(min(2.0, 5 * self.cell_width))
            axes.add_patch(outline)
        return axes

    def _draw_labels(self, axes: Axes, row_labels: bool) -> None:
        for place, text in self.rows if row_labels else ():
            self.page.write_in(axes, -GAP / self.cell_width, place, text, self.row_size, ha="right")
        how: dict[str, Any] = {"ha": "center", "va": "bottom", "rotation": self.tilt}
        if self.tilt == _TILT:
            how |= {"ha": "left", "rotation_mode": "anchor"}
        for place, text in self.columns:
            self.page.write_in(axes, place, -GAP / self.cell_height, text, self.column_size, **how)

    def _draw_numbers(self, axes: Axes, scale: Scale, numbers: Callable[[float], str]) -> None:
        longest = max((len(numbers(value)) for value in self.matrix.flat), default=1)
        size = min(_NUMBER_SIZE, self.cell_width * 72 / (0.72 * max(4, longest)))
        colours = scale.colours(dark=self.page.dark)
        for (row, column), value in np.ndenumerate(self.matrix):
            if text := numbers(value):
                behind = colours["cmap"](colours["norm"](value))[:3]
                colour = max(self.page.colours.background, self.page.colours.text, key=partial(contrast, behind))
                self.page.write_in(axes, column + 0.5, row + 0.5, text, size, ha="center", color=colour)


def weight_text(weight: float) -> str:
    """Format a weight for its cell; a weight that would round to 0.00 is left blank."""
    return f"{weight:.2f}" if weight >= 0.005 else ""


def _thinned(labels: LabelPlaces, cell: float) -> tuple[LabelPlaces, float]:
    """Choose the labels that fit, and their size: close labels are smaller, and closer ones are left out."""
    room = cell * min((after - place for (place, _), (after, _) in pairwise(labels)), default=1.0)
    size = min(LABEL_SIZE, max(_SMALLEST_LABEL, LABEL_SIZE * (room + 1e-9) / _SMALL_CELL))
    chosen: list[tuple[float, str]] = []
    for place, text in labels:
        if not chosen or (place - chosen[-1][0]) * cell >= _SMALLEST_LABELLED - 1e-9:
            chosen.append((place, text))
    return chosen, size


def draw_weights(
    weights: Float[Tensor, "T S"] | Float[np.ndarray, "T S"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str | None = None,
    gold: Iterable[WordLink] | None = None,
    dark: bool = False,
    values: bool | None = None,
) -> Figure:
    """Draw a matrix of weights as a heat map, shaded from 0 (the background) to 1.

    ``gold`` are true links, whose cells are outlined; each link is a pair (source, target), which is (column, row).
    ``values`` writes the rounded numbers into the cells, leaving those below 0.005 blank; by default they are written
    if there are at most 13 tokens per side.
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
    rows: LabelPlaces,
    columns: LabelPlaces,
    scale: Scale,
    *,
    title: str | None,
    gold: Sequence[WordLink] | None = None,
    dark: bool = False,
    values: bool | None = None,
) -> Figure:
    """Draw a title, a matrix with its labels, and the colour scale below it."""
    few = max(matrix.shape) <= FEW_TOKENS
    write = (lambda value: f"{value:+.2f}" if abs(value) >= 0.005 else "") if scale.differences else weight_text
    with drawing(title, dark=dark) as page:
        panel = Panel(page, matrix, rows, columns)
        panel.draw(0, 0, scale, numbers=write if (few if values is None else values) else None, gold=gold or ())
        largest = float(np.abs(matrix).max()) if matrix.size else 0.0
        scale.draw(page, 0, panel.height + 3 * GAP, largest, gold=gold is not None)
    return page.figure


def checked_links(gold: Iterable[WordLink] | None, shape: tuple[int, ...]) -> list[WordLink] | None:
    if gold is None:
        return None
    links = sorted(gold)
    num_rows, num_columns = shape
    for column, row in links:
        if not (0 <= column < num_columns and 0 <= row < num_rows):
            raise OptionError(f"The gold link {column}-{row} is outside the {num_columns} columns and {num_rows} rows.")
    return links


def _checked(weights: Tensor | np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> Array:
    matrix: Array = torch.as_tensor(weights).detach().cpu().double().numpy()
    if matrix.shape != (len(rows), len(columns)):
        raise ShapeError(
            f"A heat map with labels for {len(rows)} by {len(columns)} cells needs weights of that shape, "
            f"not {tuple(matrix.shape)}."
        )
    if max(matrix.shape) > MOST_LABELLED:
        raise TooLargeError(
            f"A heat map can have at most {MOST_LABELLED} tokens per side, not {matrix.shape[0]} by {matrix.shape[1]}; "
            "draw only some of its rows and columns."
        )
    strange = matrix[~(np.isfinite(matrix) & (matrix >= 0))]
    if strange.size:
        raise OptionError(f"The weights of a heat map must be finite and at least 0, not {strange[0]}.")
    return matrix
