"""Draw a view, attention weights with their tokens, as a matplotlib figure:
``view.figure("heatmap", name="decoder.1.cross", head=2)``.

A figure holds the view's own numbers, which can be read back from it. An attention matrix that is too large to draw
weight by weight is drawn as an overview, whose title says what a cell shows. matplotlib is imported only when something
is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from saccade.lens.figures.arcs import arcs
from saccade.lens.figures.heads import entropy, grid
from saccade.lens.figures.heatmaps import alignment, difference, heatmap, rollout
from saccade.lens.figures.patches import patches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES"]

#: The kinds of ``View.figure``; each takes a view and its own options.
FIGURES: dict[str, Callable[..., Figure]] = {
    "heatmap": heatmap,
    "arcs": arcs,
    "grid": grid,
    "alignment": alignment,
    "rollout": rollout,
    "difference": difference,
    "entropy": entropy,
    "patches": patches,
}
