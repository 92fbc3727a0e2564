"""Draw a matrix of RNA base pairs: probabilities above the diagonal, true pairs below it, predicted pairs as arcs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from saccade.lens.figures.canvas import GAP, SMALL_SIZE, drawing
from saccade.lens.figures.matrix import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["pair_matrix"]

_SIDE, _ARCS = 5.5, 1.6  # inches: side of the matrix, height of the arcs
_TICKS = 10  # maximum number of labels along a side


def pair_matrix(
    probability: Float[np.ndarray, "L L"],
    chosen: Sequence[tuple[int, int]],
    true: Sequence[tuple[int, int]] | None = None,
    *,
    title: str | None = None,
    dark: bool = False,
) -> Figure:
    """Draw the probability of each pair of positions above the diagonal, and the true pairs below it.

    If ``true`` is None, the ``chosen`` pairs are below the diagonal instead. Above the matrix, an arc is drawn for
    each chosen pair; if it is not one of the true pairs, it has another colour.
    """
    length = len(probability)
    shown = np.triu(probability, 1)
    for i, j in chosen if true is None else true:
        shown[j, i] = 1.0
    with drawing(title, dark=dark) as page:
        from matplotlib.patches import Arc

        scale, colours = Scale(name="probability"), page.colours
        axes = page.axes(0, 0, _SIDE, _SIDE)
        axes.set(xlim=(0, length), ylim=(length, 0))
        axes.pcolormesh(
            np.arange(length + 1), np.arange(length + 1), shown, rasterized=True, **scale.colours(dark=dark)
        )
        axes.plot([0, length], [0, length], color=colours.text, linewidth=0.5, alpha=0.5)
        axes.plot([0, length, length, 0, 0], [0, 0, length, length, 0], color=colours.text, linewidth=0.6)
        step = max(1, -(-length // _TICKS))
        for place in range(0, length, step):
            page.write_in(axes, -0.06 * length / _SIDE, place + 0.5, str(place + 1), SMALL_SIZE, ha="right")
            page.write_in(
                axes, place + 0.5, length * (1 + 0.08 / _SIDE), str(place + 1), SMALL_SIZE, ha="center", va="top"
            )
        above = page.axes(0, -_ARCS - GAP, _SIDE, _ARCS)
        longest = max((j - i for i, j in chosen), default=1)
        above.set(xlim=(0, length), ylim=(0, longest / 2 + 1))
        truth = None if true is None else set(true)
        for i, j in chosen:
            colour = colours.up if truth is None or (i, j) in truth else colours.down
            above.add_patch(Arc(((i + j + 1) / 2, 0), j - i, j - i, theta1=0, theta2=180, color=colour, linewidth=1.2))
        below = "below the diagonal: " + ("the chosen pairs" if true is None else "the true pairs")
        page.write(
            0,
            _SIDE + 5 * GAP,
            f"above the diagonal: probability; {below}; arcs: the chosen pairs",
            SMALL_SIZE,
            va="top",
        )
        scale.draw(page, 0, _SIDE + 9 * GAP)
    return page.figure
