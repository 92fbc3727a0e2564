"""Draw what one word attends to: arcs from the word to each key, with a column of weights for each head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import OptionError
from saccade.lens.figures.canvas import GAP, Canvas, ThemeName, drawing, is_dark, label
from saccade.lens.figures.drawable import Array, as_array
from saccade.lens.figures.matrix import Panel, Scale, places
from saccade.lens.view import Head, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["arcs"]

_LINE, _SPAN, _CELL = 0.24, 1.8, 0.3  # inches: height of a token, width of the arcs, width of a head's column
_THICKEST = 8.0  # points: thickness of an arc of weight 1; other arcs are proportional
_LEAST = 0.005  # smallest weight with an arc
_POINTS = 33  # points on the curve of an arc


def arcs(
    view: View,
    name: str | None = None,
    row: int = 0,
    head: Head = "mean",
    *,
    words: bool = False,
    most: int = 60,
    title: str | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Draw the arcs from the query ``row`` to the keys for ``head``, beside the query's weights in every head.

    If there are more than ``most`` keys, only those with the largest weights are drawn, in the order of the text; if
    there are more than ``most`` queries, only those around the chosen one.
    """
    name = name or view.names[-1]
    if most < 1:
        raise OptionError(f"most must be at least 1, not {most}.")
    every, one = as_array(view.row(name, row, words=words)), as_array(view.one_row(name, row, head, words=words))
    queries, keys = view.rows[name].labels(words), view.columns[name].labels(words)
    row %= len(queries)
    shown = np.sort(np.argsort(-every.max(axis=0), kind="stable")[:most])
    first = max(0, min(row - most // 2, len(queries) - most))
    near = range(first, min(first + most, len(queries)))
    if title is None:
        part = "" if len(shown) == len(keys) else f": the {len(shown)} strongest of {len(keys)} keys"
        title = view.describe(name, head) + part
    with drawing(title, dark=is_dark(theme)) as page:
        heads = places([str(number) for number in range(len(every))])
        panel = Panel(page, every[:, shown].T, places(_some(keys, shown)), heads, (_CELL, _LINE))
        left, height = _SPAN + GAP + panel.left, max(len(near) * _LINE, panel.height)
        panel.draw(left, 0, Scale())
        page.write(left, page.extent[1] - GAP, "heads", va="bottom")
        axes = page.axes(0, 0, _SPAN, height)
        axes.set(xlim=(0, 1), ylim=(height / _LINE, 0))
        for place, query in enumerate(_some(queries, near)):
            how: dict[str, Any] = {"fontweight": "bold"} if place == row - first else {"alpha": 0.55}
            page.write_in(axes, -GAP / _SPAN, place + 0.5, query, ha="right", **how)
        _draw_curves(axes, row - first, one[shown], page)
        Scale().draw(page, 0, height + 3 * GAP)
    return page.figure


def _draw_curves(axes: Axes, row: int, weights: Array, page: Canvas) -> None:
    """Draw curves with horizontal ends whose thickness shows the weight, the strongest last."""
    from matplotlib.collections import LineCollection

    order = [key for key in np.argsort(weights, kind="stable") if weights[key] >= _LEAST]
    along = np.linspace(0, 1, _POINTS)
    smooth = along**2 * (3 - 2 * along)
    curves = [np.column_stack([along, row + 0.5 + (key - row) * smooth]) for key in order]
    lines = LineCollection(curves, colors=page.colours.up, linewidths=_THICKEST * weights[order], clip_on=False)
    axes.add_collection(lines, autolim=False)


def _some(tokens: Sequence[str], chosen: Iterable[int]) -> list[str]:
    """Return the labels of these tokens, with their positions if some tokens are left out."""
    places = list(chosen)
    shown = [label(tokens[place]) for place in places]
    if len(places) == len(tokens):
        return shown
    return [f"{place} {text}" for place, text in zip(places, shown, strict=True)]
