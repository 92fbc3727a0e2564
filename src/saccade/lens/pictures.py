"""Heat maps as matplotlib figures: the weights with their tokens on both axes, for PNG, SVG and PDF.

A figure is built without pyplot and grows with its tokens, so labels are never cut and never overlap. Token text is
shown as it is: never as mathematics, never as markup. An SVG holds it as text, so it can be searched and the browser
shapes any script; a letter that no font of this machine has is a box in PNG and PDF, and whole in SVG.
"""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from numpy.typing import NDArray
from torch import Tensor

from saccade.errors import FileError, OptionError, ShapeError, TooLargeError
from saccade.lens.links import Link
from saccade.lens.ramp import Theme, ramp, theme
from saccade.lens.words import shorten, visible, visible_text

__all__ = ["FORMATS", "heatmap", "save"]

Array = NDArray[np.float64]

#: What a picture is saved as, by the suffix of its file, and the metadata that would tell one run from the next.
FORMATS: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
#: The most rows or columns that can be drawn with their tokens.
MOST_TOKENS = 400
#: Up to so many rows and columns the numbers are written into the cells.
FEW_TOKENS = 13

_DPI = 150
_LABEL_CELLS = 24  # longer tokens are shortened in the middle
_LABEL_SIZE, _TITLE_SIZE, _NUMBER_SIZE, _SCALE_SIZE = 10, 12, 8, 8  # points
_LARGEST_CELL, _SMALLEST_CELL, _MATRIX = 0.5, 0.24, 6.0  # inches
_MARGIN, _GAP = 0.15, 0.06
_SCALE_WIDTH, _SCALE_HEIGHT = 1.5, 0.11
_TILT = 45

# Fonts that have what DejaVu Sans lacks; those that are installed are used.
_MORE_FONTS = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "Hiragino Sans", "PingFang SC"),
    *("Yu Gothic", "Microsoft YaHei", "Malgun Gothic", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Noto Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Arial Unicode MS"),
)

_FIXED: dict[Any, Any] = {
    "svg.hashsalt": "saccade",
    "svg.fonttype": "none",  # text as text
    "savefig.bbox": None,
    "savefig.transparent": False,
}
# matplotlib's settings and Python's warning filters are the process's: one thread at a time changes them.
_settings = threading.RLock()


def heatmap(
    weights: Float[Tensor, "T S"] | Float[np.ndarray, "T S"],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str | None = None,
    gold: Iterable[Link] | None = None,
    dark: bool = False,
    values: bool | None = None,
) -> Figure:
    """Weights as shaded cells, on the one scale from background (0) to ink (1).

    ``gold`` are links to outline, as (source, target), that is (column, row). ``values`` writes the numbers into the
    cells, rounded, those below 0.005 left blank; if not given, it does so where there are few tokens.
    """
    matrix = _checked(weights, rows, columns)
    links = _checked_links(gold, matrix)
    few = max(matrix.shape) <= FEW_TOKENS
    colours = theme(dark)
    figure = Figure(dpi=_DPI, facecolor=colours.background)
    FigureCanvasAgg(figure)
    with _quiet():
        page = _Page(figure, matrix, [_label(token) for token in rows], [_label(token) for token in columns], title)
        axes = page.matrix_axes()
        _draw_cells(axes, matrix, colours, dark, grid=page.cell)
        page.draw_labels(axes, colours)
        if few if values is None else values:
            _draw_values(axes, matrix, colours, page.cell)
        for column, row in links or ():
            outline = Rectangle((column + 0.06, row + 0.06), 0.88, 0.88, fill=False, edgecolor=colours.gold)
            outline.set_linewidth(min(2.0, 5 * page.cell))
            axes.add_patch(outline)
        page.draw_scale(matrix, colours, dark, gold=links is not None)
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, SVG or PDF, by the suffix of the file: the same figure gives the same bytes."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise FileError(
            f"{path}: a picture is saved as {', '.join(FORMATS)}; not as {suffix or 'a name without suffix'}."
        )
    content = io.BytesIO()  # first whole in memory: what fails on the way leaves the old file as it was
    with _quiet():
        figure.savefig(content, format=suffix[1:], dpi=_DPI, facecolor=figure.get_facecolor(), metadata=FORMATS[suffix])
    try:
        path.write_bytes(content.getvalue())
    except OSError as error:
        raise FileError(f"{path}: the picture cannot be written: {error.strerror or error}.") from error
    return path


class _Page:
    """Where everything goes, in inches from the top left, from the measured sizes of the labels."""

    def __init__(
        self, figure: Figure, matrix: Array, rows: Sequence[str], columns: Sequence[str], title: str | None
    ) -> None:
        num_rows, num_columns = matrix.shape
        self.figure, self.rows, self.columns, self.title = figure, rows, columns, title and visible_text(title)
        self.cell = min(_LARGEST_CELL, max(_SMALLEST_CELL, _MATRIX / max(1, num_rows, num_columns)))
        flat = [self._measure(label) for label in columns]
        self.tilt = 0 if all(width <= self.cell - _GAP for width, _ in flat) else _TILT
        tilted = [self._measure(label, rotation=self.tilt, rotation_mode="anchor") for label in columns]
        row_width = max((self._measure(label)[0] for label in rows), default=0.0)
        title_width, title_height = self._measure(self.title, fontsize=_TITLE_SIZE) if self.title else (0.0, 0.0)

        self.matrix_width, self.matrix_height = num_columns * self.cell, num_rows * self.cell
        self.left = _MARGIN + row_width + _GAP
        self.title_top = _MARGIN
        header = max((height for _, height in tilted), default=0.0)
        self.top = _MARGIN + (title_height + 2 * _GAP if self.title else 0.0) + header + _GAP
        self.scale_top = self.top + self.matrix_height + 3 * _GAP
        # A tilted label begins above the middle of its column and leans out to the right.
        reach = [(column + 0.5) * self.cell + width for column, (width, _) in enumerate(tilted)] if self.tilt else []
        right = max([self.matrix_width, 2 * _SCALE_WIDTH, *reach, title_width - self.left + _MARGIN])
        self.width = self.left + right + _MARGIN
        self.height = self.scale_top + _SCALE_HEIGHT + 3.5 * _GAP + _MARGIN
        figure.set_size_inches(self.width, self.height)

    def matrix_axes(self) -> Axes:
        axes = self._axes(self.left, self.top, max(self.matrix_width, 1e-3), max(self.matrix_height, 1e-3))
        axes.set_xlim(0, max(1, len(self.columns)))
        axes.set_ylim(max(1, len(self.rows)), 0)
        return axes

    def draw_labels(self, axes: Axes, colours: Theme) -> None:
        gap = _GAP / self.cell
        for row, label in enumerate(self.rows):
            axes.text(-gap, row + 0.5, label, ha="right", va="center_baseline", color=colours.text, **_text())
        for column, label in enumerate(self.columns):
            place: dict[str, Any] = {"ha": "center", "va": "bottom"}
            if self.tilt:
                place = {"ha": "left", "va": "bottom", "rotation": self.tilt, "rotation_mode": "anchor"}
            axes.text(column + 0.5, -gap, label, color=colours.text, **place, **_text())
        if self.title:
            x, y = _MARGIN / self.width, 1 - self.title_top / self.height
            self.figure.text(x, y, self.title, ha="left", va="top", color=colours.text, **_text(_TITLE_SIZE))

    def draw_scale(self, matrix: Array, colours: Theme, dark: bool, *, gold: bool) -> None:
        """What the shades mean, under the matrix."""
        steps = 50
        axes = self._axes(self.left, self.scale_top, _SCALE_WIDTH, _SCALE_HEIGHT)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        edges = np.linspace(0, 1, steps + 1)
        shades = ramp(np.linspace(0, 1, steps)[None], dark=dark)
        axes.pcolormesh(edges, np.array([0.0, 1.0]), shades, edgecolors="face", linewidth=0.8)
        axes.add_patch(Rectangle((0, 0), 1, 1, fill=False, edgecolor=colours.text, linewidth=0.6, clip_on=False))
        past_one = matrix.size and matrix.max() > 1 + 1e-6
        for value, name in ((0.0, "0"), (0.5, "0.5"), (1.0, "≥ 1" if past_one else "1")):
            axes.text(value, -0.35, name, ha="center", va="top", color=colours.text, **_text(_SCALE_SIZE))
        axes.text(1.08, 0.5, "weight", ha="left", va="center_baseline", color=colours.text, **_text(_SCALE_SIZE))
        if gold:
            square = Rectangle((1.5, 0), _SCALE_HEIGHT / _SCALE_WIDTH, 1, fill=False, edgecolor=colours.gold)
            square.set(linewidth=1.4, clip_on=False)
            axes.add_patch(square)
            axes.text(1.62, 0.5, "gold", ha="left", va="center_baseline", color=colours.text, **_text(_SCALE_SIZE))

    def _axes(self, left: float, top: float, width: float, height: float) -> Axes:
        bottom = self.height - top - height
        place = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(place)
        axes.set_axis_off()
        return axes

    def _measure(self, text: str, **how: Any) -> tuple[float, float]:
        """Width and height of a text in inches."""
        size = how.pop("fontsize", _LABEL_SIZE)
        extent = Text(0, 0, text, figure=self.figure, **how, **_text(size)).get_window_extent(dpi=_DPI)
        return extent.width / _DPI, extent.height / _DPI


def _draw_cells(axes: Axes, matrix: Array, colours: Theme, dark: bool, *, grid: float) -> None:
    if matrix.size:
        num_rows, num_columns = matrix.shape
        mesh = axes.pcolormesh(np.arange(num_columns + 1), np.arange(num_rows + 1), ramp(matrix, dark=dark))
        mesh.set(edgecolor=colours.grid, linewidth=grid, clip_on=False)


def _draw_values(axes: Axes, matrix: Array, colours: Theme, cell: float) -> None:
    size = min(_NUMBER_SIZE, cell * 72 / 2.9)  # four digits fit into the cell
    for (row, column), weight in np.ndenumerate(matrix):
        if weight >= 0.005:
            colour = colours.background if weight > 0.5 else colours.text
            axes.text(
                column + 0.5, row + 0.5, f"{weight:.2f}", ha="center", va="center_baseline", color=colour, **_text(size)
            )


def _label(token: str) -> str:
    return shorten(visible(token), _LABEL_CELLS)


def _text(size: float = _LABEL_SIZE) -> dict[str, Any]:
    return {"fontsize": size, "fontfamily": _families(), "parse_math": False, "usetex": False}


@cache
def _families() -> list[str]:
    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _MORE_FONTS if name in installed), "sans-serif"]


@contextmanager
def _quiet() -> Iterator[None]:
    """The settings that the output depends on, and no warning about a letter that no font has."""
    with _settings, matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcParams.update(_FIXED)
        warnings.filterwarnings("ignore", message=r"(Glyph .* missing from|Matplotlib currently does not support)")
        yield


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


def _checked_links(gold: Iterable[Link] | None, matrix: Array) -> list[Link] | None:
    if gold is None:
        return None
    links = sorted(gold)
    num_rows, num_columns = matrix.shape
    for column, row in links:
        if not (0 <= column < num_columns and 0 <= row < num_rows):
            raise OptionError(f"The gold link {column}-{row} is outside of {num_columns} columns and {num_rows} rows.")
    return links
