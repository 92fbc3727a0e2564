"""Draw one matrix: a heat map, an alignment beside the gold links, a rollout, or the difference between two inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from saccade.attention.watching.overview import ReportProgress
from saccade.errors import OptionError
from saccade.lens.axis import Axis
from saccade.lens.figures.canvas import GAP, ThemeName, drawing, is_dark, label
from saccade.lens.figures.drawable import MOST_TOKENS, Array, as_array, scale_end, weights_to_draw
from saccade.lens.figures.matrix import (
    FEW_TOKENS,
    LabelPlaces,
    Panel,
    Scale,
    checked_links,
    draw_matrix,
    places,
    weight_text,
)
from saccade.lens.links import WordLink
from saccade.lens.view import Head, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["alignment", "difference", "heatmap", "rollout"]

_TICKS = 20  # number of labels along an overview
_DIFFERENCES = (0.1, 0.25, 0.5, 1.0)  # ends of the scale of a difference, of which the smallest sufficient is used


def heatmap(
    view: View,
    name: str | None = None,
    head: Head = "mean",
    *,
    words: bool = False,
    scale: float | None = 1.0,
    title: str | None = None,
    theme: ThemeName = "light",
    progress: ReportProgress | None = None,
) -> Figure:
    """Draw the weights of one head, or the mean or maximum of all heads, with tokens on both axes.

    ``scale`` is the weight drawn in the strongest colour; None takes the largest weight.
    """
    name = name or view.names[-1]
    title = title or view.describe(name, head)
    rows, columns = view.axes(name)
    shown = weights_to_draw(view, name, head, words, progress)
    matrix = as_array(shown.values)
    if shown.cell == (1, 1):
        sides = _labels(rows, words), _labels(columns, words)
    else:
        title = f"{title}: {shown.label}"
        sides = _ticks(rows, words, shown.cell[0]), _ticks(columns, words, shown.cell[1])
    return draw_matrix(matrix, *sides, Scale(scale_end(scale, matrix)), title=title, dark=is_dark(theme))


def alignment(
    view: View,
    name: str | None = None,
    head: Head = "mean",
    *,
    words: bool = True,
    gold: frozenset[WordLink] | None = None,
    title: str | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Draw the weights of a cross-attention between words.

    If there are gold links (the true links between the words), their cells are outlined, and a second matrix beside
    the first shows the gold links alone.
    """
    across = [other for other in view.names if not view.is_self(other)]
    if name is None and not across:
        raise OptionError(f"An alignment needs cross-attention; there is none among {', '.join(view.names)}.")
    name = name or across[-1]
    gold = view.gold if gold is None else gold
    if gold is not None and not words:
        raise OptionError("Gold links connect words; draw the alignment with words=True.")
    rows, columns = view.axes(name)
    size = max(rows.size(words), columns.size(words))
    if size > MOST_TOKENS:
        raise OptionError(f"An alignment can have at most {MOST_TOKENS} words, not {size}; draw a heatmap instead.")
    matrix = as_array(view.matrix(name, head, words=words))
    title = title or view.describe(name, head)
    sides = _labels(rows, words), _labels(columns, words)
    if gold is None:
        return draw_matrix(matrix, *sides, Scale(), title=title, dark=is_dark(theme))
    links = checked_links(gold, matrix.shape) or []
    return _beside(matrix, *sides, links, title, dark=is_dark(theme))


def rollout(
    view: View,
    stack: str | None = None,
    heads: Literal["mean", "max"] = "mean",
    *,
    words: bool = False,
    scale: float | None = None,
    title: str | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Draw how much of each input token reaches each output of a stack of self-attentions (Abnar & Zuidema 2020)."""
    matrix = as_array(view.rollout(stack, heads, words=words, assume_only_attention=True))
    stack = stack or next(iter(view.stacks))
    names = view.stacks[str(stack)]
    axis = view.rows[names[-1]]
    if len(matrix) > MOST_TOKENS:
        raise OptionError(f"A figure of a rollout can have at most {MOST_TOKENS} tokens, not {len(matrix)}.")
    tokens = _labels(axis, words)
    assumption = view.assumption(names)
    title = title or f"rollout of {stack}, {heads} of heads"
    title = f"{title} ({assumption})" if assumption else title
    colours = Scale(scale_end(scale, matrix), name="share")
    return draw_matrix(matrix, tokens, tokens, colours, title=title, dark=is_dark(theme))


def difference(
    view: View,
    other: View,
    name: str | None = None,
    head: Head = "mean",
    *,
    words: bool = False,
    title: str | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Draw the weights of ``view`` minus those of ``other``, between the tokens that both inputs share.

    Blue cells have more weight in ``view``, orange cells have less.
    """
    name = name or view.names[-1]
    found = view.difference(other, name, head, words=words)
    matrix = as_array(found.values)
    shared = max(matrix.shape) if matrix.size else 0
    if not 1 <= shared <= MOST_TOKENS:
        raise OptionError(f"A difference can show 1 to {MOST_TOKENS} tokens that both inputs share, not {shared}.")
    largest = float(np.abs(matrix).max())
    scale = Scale(next((end for end in _DIFFERENCES if largest <= end), largest), differences=True, name="difference")
    sides = places([label(token) for token in found.rows]), places([label(token) for token in found.columns])
    title = title or f"{view.describe(name, head)}: this input minus the other"
    return draw_matrix(matrix, *sides, scale, title=title, dark=is_dark(theme))


def _labels(axis: Axis, words: bool) -> LabelPlaces:
    return places([label(text) for text in axis.labels(words)])


def _ticks(axis: Axis, words: bool, cell: int) -> LabelPlaces:
    """Return evenly spaced labels for an overview: a token or word, placed at the cell that contains it."""
    every = axis.labels(words)
    cells = -(-len(every) // cell)
    step = max(1, -(-cells // _TICKS))
    return [(place + 0.5, f"{place * cell} {label(every[place * cell])}") for place in range(0, cells, step)]


def _beside(
    matrix: Array, rows: LabelPlaces, columns: LabelPlaces, gold: Sequence[WordLink], title: str, *, dark: bool
) -> Figure:
    """Draw the weights with the gold links outlined, and the gold links alone beside them."""
    truth = np.zeros_like(matrix)
    for column, row in gold:
        truth[row, column] = 1.0
    with drawing(title, dark=dark) as page:
        panel, other = Panel(page, matrix, rows, columns), Panel(page, truth, rows, columns)
        few, below = max(matrix.shape) <= FEW_TOKENS, panel.height + 3 * GAP
        panel.draw(0, 0, Scale(), numbers=weight_text if few else None, gold=gold)
        Scale().draw(page, 0, below, gold=True)
        second = page.extent[2] + 4 * GAP
        other.draw(second, 0, Scale(), row_labels=False)
        page.write(second, below, "gold links")
    return page.figure
