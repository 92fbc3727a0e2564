"""Heat maps for the terminal, shaded in the terminal's own text colour.

A weight of 0 is blank and a weight of 1 is a full block, whatever the terminal's colours are. If there is room, each
row ends with the key that has its largest weight, and that weight. Column labels are horizontal if they fit side by
side, and vertical otherwise. If there is no room for all columns, those with the largest weights are shown, in their
original order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text
from torch import Tensor

from saccade.errors import OptionError, ShapeError
from saccade.lens.words import letters, right_to_left, shorten, visible, visible_text

__all__ = ["TerminalHeatmap"]

#: The smallest weight of each shade after the first, which is blank.
BOUNDS = (0.05, 0.2, 0.4, 0.6, 0.8)
SHADES = " ·░▒▓█"
ASCII_SHADES = " .:+*#"

_LABEL_WIDTH = 16  # maximum width of a row label, which also takes at most half of the terminal
_UPRIGHT_LETTERS = 12
_NARROWEST, _WIDEST = 2, 3  # terminal cells per column
_SHORTEST_KEY = 3  # with less room than this, the strongest key is not named
_LEFT_TO_RIGHT = "\u200e"  # written after a right-to-left word, so that the terminal does not reorder the row


@dataclass(frozen=True)
class TerminalHeatmap:
    """A heat map to print with ``rich.print`` or on a console; it adapts to the terminal's width."""

    weights: Float[Tensor, "T S"]
    rows: Sequence[str]
    columns: Sequence[str]
    title: str | None = None

    def __post_init__(self) -> None:
        if tuple(self.weights.shape) != (len(self.rows), len(self.columns)):
            raise ShapeError(
                f"A heat map with labels for {len(self.rows)} by {len(self.columns)} cells needs weights of "
                "that shape, "
                f"not {tuple(self.weights.shape)}."
            )
        if not bool(torch.isfinite(self.weights).all()):
            raise OptionError("The weights of a heat map must be finite, but some of these are NaN or infinite.")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        shades = shades_for(options)
        labels = [visible(token) for token in self.rows]
        label_width = min(_widest(labels), _LABEL_WIDTH, max(1, options.max_width // 2))
        columns = self._columns(options.max_width - label_width - 1)
        if self.title:
            yield line(visible_text(self.title), options, wrap=True)
        for row in self._lines(labels, label_width, columns, options.max_width, shades):
            yield line(row, options)
        yield line(legend(shades), options, wrap=True)
        left_out = len(self.columns) - columns.count
        if left_out:
            text = (
                f"{left_out} of {len(self.columns)} columns {'is' if left_out == 1 else 'are'} left out; "
                "those shown have the largest weights."
            )
            yield line(text, options, wrap=True)

    def _columns(self, space: int) -> _Columns:
        """Return all columns if there is room, otherwise those with the largest weights."""
        labels = [visible(token) for token in self.columns]
        everything = _fit_columns(labels, space)
        if everything is not None:
            return everything
        count = max(0, space // (_NARROWEST + 1))
        largest = self.weights.detach().cpu().double().amax(0) if len(self.rows) else torch.zeros(len(labels))
        chosen = sorted(largest.argsort(descending=True, stable=True)[:count].tolist())
        return _Columns([labels[column] for column in chosen], [_NARROWEST] * count, chosen, flat=False)

    def _lines(
        self, labels: Sequence[str], label_width: int, columns: _Columns, width: int, shades: str
    ) -> Iterator[str]:
        for header in columns.header():
            yield " " * (label_width + 1) + header
        space = width - label_width - 1 - columns.width
        for label, row in zip(labels, self.weights.detach().cpu().double().numpy(), strict=True):
            cells = columns.cells([shades[shade(row[column])] for column in columns.chosen])
            yield f"{right_aligned(label, label_width)} {cells}{self._strongest(row, space)}"

    def _strongest(self, row: Float[np.ndarray, " S"], space: int) -> str:
        """Return the strongest key of a row and its weight, if at least a few letters of the key fit."""
        room = space - len("  " + " 0.00")
        if room < _SHORTEST_KEY or not len(row) or row.max() <= 0:
            return ""
        names = [visible(token) for token in self.columns]
        key = int(row.argmax())
        return f"  {left_aligned(names[key], min(room, _LABEL_WIDTH, _widest(names)))} {row[key]:.2f}"


@dataclass(frozen=True)
class _Columns:
    """The columns that fit, with their labels; a gap follows each column."""

    labels: Sequence[str]
    widths: Sequence[int]
    chosen: Sequence[int]  # the position of each among all columns
    flat: bool

    @property
    def count(self) -> int:
        return len(self.widths)

    @property
    def width(self) -> int:
        return sum(self.widths) + self.count

    def header(self) -> Iterator[str]:
        if self.flat:
            yield "".join(
                left_aligned(label, width) + " " for label, width in zip(self.labels, self.widths, strict=True)
            )
            return
        upright = [letters(shorten(label, _UPRIGHT_LETTERS)) for label in self.labels]
        height = max(map(len, upright), default=0)
        for line in range(height):
            parts = [letter[line - height + len(letter)] if line >= height - len(letter) else "" for letter in upright]
            yield "".join(left_aligned(part, width) + " " for part, width in zip(parts, self.widths, strict=True))

    def cells(self, shades: Sequence[str]) -> str:
        drawn = [min(width, _WIDEST) for width in self.widths]
        return "".join(
            shade * cells + " " * (width - cells + 1)
            for shade, cells, width in zip(shades, drawn, self.widths, strict=True)
        )


def shades_for(options: ConsoleOptions) -> str:
    return ASCII_SHADES if options.ascii_only else SHADES


def shade(weight: float) -> int:
    """Return the index of the shade for a weight: 0 (blank) to 5 (full)."""
    return sum(weight >= bound for bound in BOUNDS)


def legend(shades: str) -> str:
    """Return a line that says from which weight on each shade is used."""
    return "  ".join(f"{one * 2} {bound:g}" for one, bound in zip(shades[1:], BOUNDS, strict=True))


def line(text: str, options: ConsoleOptions, *, wrap: bool = False) -> Text:
    """Return a line of plain text without markup, in characters that the terminal can show."""
    shown = text.encode("ascii", "backslashreplace").decode() if options.ascii_only else text
    return Text(shown.rstrip(), no_wrap=not wrap, overflow="fold" if wrap else "crop")


def _fit_columns(labels: Sequence[str], space: int) -> _Columns | None:
    """Fit horizontal labels, or else vertical ones over wide or narrow cells; return None if there is no room."""
    every = range(len(labels))
    flat = _Columns(labels, [max(_WIDEST, cell_len(label)) for label in labels], every, flat=True)
    if flat.width <= space:
        return flat
    for width in (_WIDEST, _NARROWEST):
        upright = _Columns(labels, [width] * len(labels), every, flat=False)
        if upright.width <= space:
            return upright
    return None


def _widest(labels: Sequence[str]) -> int:
    return max(map(cell_len, labels), default=0)


def left_aligned(text: str, width: int) -> str:
    short = shorten(text, width)
    return _tamed(short) + " " * (width - cell_len(short))


def right_aligned(text: str, width: int) -> str:
    short = shorten(text, width) if width else ""
    return " " * (width - cell_len(short)) + _tamed(short)


def _tamed(text: str) -> str:
    return text + _LEFT_TO_RIGHT if right_to_left(text) else text
