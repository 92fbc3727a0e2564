"""Draw all heads of all layers at once: a grid of small heat maps, or the entropy and distance of each head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from saccade.attention.watching.overview import ReportProgress, progress_of_part
from saccade.errors import OptionError
from saccade.lens.figures.canvas import GAP, ThemeName, drawing, is_dark
from saccade.lens.figures.drawable import Array, as_array, scale_end, weights_to_draw
from saccade.lens.figures.matrix import Panel, Scale, places
from saccade.lens.view import View
from saccade.lens.words import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["entropy", "grid"]

_LARGEST_PICTURE, _SMALLEST_PICTURE, _GRID_WIDTH = 1.1, 0.5, 9.0  # inches
_NUMBER_CELL = (0.52, 0.3)


def grid(
    view: View,
    names: Sequence[str] | None = None,
    *,
    words: bool = False,
    scale: float | None = 1.0,
    title: str | None = None,
    theme: ThemeName = "light",
    progress: ReportProgress | None = None,
) -> Figure:
    """Draw a small heat map of each head, with a row for each attention layer and a column for each head.

    In each heat map, queries run downwards and keys to the right. ``scale`` is the weight drawn in the strongest
    colour; None takes the largest weight.
    """
    names = _chosen(view, names)
    most_heads = max(view.heads(name) for name in names)
    size = min(_LARGEST_PICTURE, max(_SMALLEST_PICTURE, _GRID_WIDTH / most_heads))
    pictures, notes = _pictures(view, names, words, progress)
    largest = max((float(matrix.max()) for matrix in pictures.values() if matrix.size), default=0.0)
    colours = Scale(scale_end(scale, np.array([largest])))
    title = title or "; ".join(["all heads, queries down, keys across", *notes, *view.left_out])
    with drawing(title, dark=is_dark(theme)) as page:
        step = size + GAP
        for (row, head), matrix in pictures.items():
            axes = page.axes(head * step, row * step, size, size)
            axes.imshow(matrix, aspect="auto", **colours.colours(dark=page.dark))
            axes.patch.set(facecolor="none", edgecolor=page.colours.grid, linewidth=0.8, visible=True, clip_on=False)
            axes.set(xticks=(), yticks=())
            axes.set_axis_on()
            for side in axes.spines.values():
                side.set(color=page.colours.grid, linewidth=0.8)
        for head in range(most_heads):
            number = f"head {head}" if size > 0.6 else str(head)
            page.write(head * step + size / 2, -GAP, number, ha="center", va="bottom")
        for row, name in enumerate(names):
            page.write(-GAP, row * step + size / 2, visible(name), ha="right", va="center_baseline")
        colours.draw(page, 0, len(names) * step + 2 * GAP, largest)
    return page.figure


def entropy(
    view: View,
    names: Sequence[str] | None = None,
    *,
    title: str | None = None,
    theme: ThemeName = "light",
    progress: ReportProgress | None = None,
) -> Figure:
    """Draw each head's mean entropy in bits, and for self-attention how many tokens away it attends on average."""
    names = _chosen(view, names)
    title = title or "; ".join(view.left_out) or None
    bits, away = _measured(view, names, progress)
    most = max(float(np.log2(max(2, len(view.axes(name)[1])))) for name in names)
    parts = [("entropy", bits, Scale(most, name="bits"))]
    if not np.isnan(away).all():
        parts.append(("distance", away, Scale(scale_end(None, away), name="tokens")))
    rows, heads = places([visible(name) for name in names]), places([str(head) for head in range(bits.shape[1])])
    with drawing(title, dark=is_dark(theme)) as page:
        lefts: list[float] = []
        for _, values, scale in parts:
            panel = Panel(page, values, rows, heads, _NUMBER_CELL)
            left = page.extent[2] + 4 * GAP if lefts else 0.0
            panel.draw(left, 0, scale, numbers=_number, row_labels=not lefts)
            scale.draw(page, left, panel.height + 3 * GAP)
            lefts.append(left)
        top = page.extent[1] - GAP
        for left, (name, _, _) in zip(lefts, parts, strict=True):
            page.write(left, top, f"{name} of each head", va="bottom")
    return page.figure


def _chosen(view: View, names: Sequence[str] | None) -> list[str]:
    chosen = view.names if names is None else list(names)
    if not chosen:
        raise OptionError("A picture of all heads needs at least one attention, but names is empty.")
    return chosen


def _pictures(
    view: View, names: Sequence[str], words: bool, progress: ReportProgress | None
) -> tuple[dict[tuple[int, int], Array], list[str]]:
    """Return the matrix of each head by (row, head), and what a cell shows if it is not a single weight."""
    found: dict[tuple[int, int], Array] = {}
    notes: dict[str, None] = {}
    for row, name in enumerate(names):
        num_heads = view.heads(name)
        for head in range(num_heads):
            part = progress_of_part(progress, row * num_heads + head, len(names) * num_heads)
            shown = weights_to_draw(view, name, head, words, part)
            if shown.cell != (1, 1):
                notes[shown.label] = None
            found[row, head] = as_array(shown.values)
    return found, list(notes)


def _measured(view: View, names: Sequence[str], progress: ReportProgress | None) -> tuple[Array, Array]:
    """Return entropy and distance by (attention, head), with NaN where there is no number."""
    most_heads = max(view.heads(name) for name in names)
    bits, away = np.full((2, len(names), most_heads), np.nan)
    for row, name in enumerate(names):
        first, second = (progress_of_part(progress, 2 * row + half, 2 * len(names)) for half in range(2))
        bits[row, : view.heads(name)] = view.entropy(name, first).numpy()
        if view.is_self(name):
            away[row, : view.heads(name)] = view.distance(name, second).numpy()
    return bits, away


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}" if value < 100 else f"{value:.0f}"
