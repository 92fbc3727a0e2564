"""Draw a bar chart of named numbers from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from saccade.errors import OptionError
from saccade.lens.colours import ramp
from saccade.lens.figures.canvas import GAP, SMALL_SIZE, drawing
from saccade.lens.words import shorten, visible_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bars"]

_LENGTH = 4.0  # inches: length of a bar of value 1
_ROW = 0.26
_MOST = 120
_LABEL_CELLS = 40  # longer names are shortened in the middle


def bars(
    names: Sequence[str],
    values: Sequence[float],
    *,
    marks: Sequence[float | None] | None = None,
    title: str | None = None,
    caption: str | None = None,
    dark: bool = False,
) -> Figure:
    """Draw a horizontal bar for each value, with its name on the left and its number at the end.

    A bar of value 1 spans the whole width, and longer bars have a stronger colour. ``marks`` has a number for each
    bar at which a line is drawn across it, or None for no line; ``caption`` is written below the chart.
    """
    if not 0 < len(names) == len(values) <= _MOST:
        raise OptionError(f"A bar chart takes 1 to {_MOST} values, each with a name, not {len(values)}.")
    shown = [shorten(visible_text(name), _LABEL_CELLS) for name in names]
    with drawing(title, dark=dark) as page:
        height = _ROW * len(names)
        axes = page.axes(0, 0, _LENGTH, height)
        axes.set(xlim=(0, 1), ylim=(len(names), 0))
        axes.barh(
            np.arange(len(values)) + 0.5,
            np.asarray(values, dtype=np.float64),
            height=0.7,
            color=[tuple(colour) for colour in ramp(0.25 + 0.6 * np.asarray(values), dark=dark)],
            edgecolor=page.colours.text,
            linewidth=0.5,
        )
        for row, (name, value) in enumerate(zip(shown, values, strict=True)):
            mark = None if marks is None else marks[row]
            end, middle = max(value, mark or 0.0), _ROW * (row + 0.5)
            page.write(-GAP, middle, name, ha="right", va="center")
            page.write(_LENGTH * min(end, 1.0) + GAP, middle, f"{value:.2f}", SMALL_SIZE, va="center")
            if mark is not None:
                axes.plot([mark, mark], [row + 0.05, row + 0.95], color=page.colours.gold, linewidth=2, clip_on=False)
        if caption:
            page.write(0, height + 2 * GAP, caption, SMALL_SIZE)
    return page.figure
