"""All heads of all layers at once: their matrices as a grid of small pictures, or one number of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from saccade.attention.watching.overview import Progress
from saccade.errors import OptionError
from saccade.lens.figures.canvas import GAP, MARGIN, ThemeName, drawing, is_dark
from saccade.lens.figures.drawable import Array, as_array, drawn, scale_end
from saccade.lens.figures.panel import SCALE_HEIGHT, SCALE_WIDTH, Panel, Scale, places
from saccade.lens.view import View, share
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
    progress: Progress | None = None,
) -> Figure:
    """A row for each attention, a column for each head; in each picture queries run down and keys to the right.

    ``scale`` is the weight that is drawn as full ink; None takes the largest weight.
    """
    names = _chosen(view, names)
    most_heads = max(view.heads(name) for name in names)
    size = min(_LARGEST_PICTURE, max(_SMALLEST_PICTURE, _GRID_WIDTH / most_heads))
    with drawing(dark=is_dark(theme)) as page:
        pictures, notes = _pictures(view, names, words, progress)
        largest = max((float(matrix.max()) for matrix in pictures.values() if matrix.size), default=0.0)
        colours = Scale(scale_end(scale, np.array([largest])))
        said = title or "; ".join(["all heads, queries down, keys across", *notes, *view.left_out])
        title_width, title_height = page.measure_title(said)
        shown = [visible(name) for name in names]
        left = MARGIN + max(page.measure(name)[0] for name in shown) + GAP
        top = MARGIN + title_height + page.measure("head 0")[1] + GAP
        below = top + len(names) * (size + GAP) + 2 * GAP
        right = max(left + max(most_heads * (size + GAP), SCALE_WIDTH), MARGIN + title_width)
        page.resize(right + MARGIN, below + SCALE_HEIGHT + MARGIN)
        page.write_title(said)
        for head in range(most_heads):
            place = left + head * (size + GAP) + size / 2
            page.write(place, top - GAP, f"head {head}" if size > 0.6 else str(head), ha="center", va="bottom")
        for number, name in enumerate(shown):
            middle = top + number * (size + GAP) + size / 2
            page.write(left - GAP, middle, name, ha="right", va="center_baseline")
        for (row, head), matrix in pictures.items():
            axes = page.axes(left + head * (size + GAP), top + row * (size + GAP), size, size)
            axes.imshow(matrix, aspect="auto", **colours.colours(dark=page.dark))
            axes.patch.set(facecolor="none", edgecolor=page.colours.grid, linewidth=0.8, visible=True, clip_on=False)
            axes.set(xticks=(), yticks=())
            axes.set_axis_on()
            for side in axes.spines.values():
                side.set(color=page.colours.grid, linewidth=0.8)
        colours.draw(page, left, below, largest)
    return page.figure


def entropy(
    view: View,
    names: Sequence[str] | None = None,
    *,
    title: str | None = None,
    theme: ThemeName = "light",
    progress: Progress | None = None,
) -> Figure:
    """Of each head the mean entropy of its rows in bits, and of self-attentions how many tokens away it looks."""
    names = _chosen(view, names)
    title = title or "; ".join(view.left_out) or None
    bits, away = _measured(view, names, progress)
    most = max(float(np.log2(max(2, len(view.axes(name)[1])))) for name in names)
    ends = Scale(most, name="bits"), Scale(scale_end(None, away), name="tokens")
    said = ("entropy", "distance")
    heads = places([str(head) for head in range(bits.shape[1])])
    with drawing(dark=is_dark(theme)) as page:
        rows = places([visible(name) for name in names])
        panels = [Panel(page, values, rows, heads, _NUMBER_CELL) for values in (bits, away)]
        if np.isnan(away).all():
            panels.pop()
        title_width, title_height = page.measure_title(title)
        left, caption = MARGIN + panels[0].left, page.measure("entropy")[1] + 2 * GAP
        top = MARGIN + title_height + caption + panels[0].header
        step = max(panels[0].reach, SCALE_WIDTH) + 4 * GAP
        below = top + panels[0].height + 3 * GAP
        right = max(left + len(panels) * step - 4 * GAP, MARGIN + title_width)
        page.resize(right + MARGIN, below + SCALE_HEIGHT + MARGIN)
        page.write_title(title)
        for number, (panel, scale, name) in enumerate(zip(panels, ends, said, strict=False)):
            page.write(left + number * step, top - panel.header - GAP, f"{name} of each head", va="bottom")
            panel.draw(left + number * step, top, scale, numbers=_number, row_labels=not number)
            scale.draw(page, left + number * step, below)
    return page.figure


def _chosen(view: View, names: Sequence[str] | None) -> list[str]:
    chosen = view.names if names is None else list(names)
    if not chosen:
        raise OptionError("A picture of all heads needs at least one attention; none was named.")
    return chosen


def _pictures(
    view: View, names: Sequence[str], words: bool, progress: Progress | None
) -> tuple[dict[tuple[int, int], Array], list[str]]:
    """The matrix of each head, by its place; and what the cells are where they are not single weights."""
    found: dict[tuple[int, int], Array] = {}
    notes: dict[str, None] = {}
    for row, name in enumerate(names):
        num_heads = view.heads(name)
        for head in range(num_heads):
            part = progress and share(progress, row * num_heads + head, len(names) * num_heads)
            shown = drawn(view, name, head, words, part)
            if shown.cell != (1, 1):
                notes[shown.label] = None
            found[row, head] = as_array(shown.values)
    return found, list(notes)


def _measured(view: View, names: Sequence[str], progress: Progress | None) -> tuple[Array, Array]:
    """Entropy and distance (attention, head); what there is not is NaN."""
    most_heads = max(view.heads(name) for name in names)
    bits, away = np.full((2, len(names), most_heads), np.nan)
    for row, name in enumerate(names):
        first, second = (progress and share(progress, 2 * row + half, 2 * len(names)) for half in range(2))
        bits[row, : view.heads(name)] = view.entropy(name, first).numpy()
        if view.is_self(name):
            away[row, : view.heads(name)] = view.distance(name, second).numpy()
    return bits, away


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}" if value < 100 else f"{value:.0f}"
