"""Draw paths of moving agents: where they came from, where they may go, and which agents one of them attends to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from saccade.lens.figures.canvas import GAP, SMALL_SIZE, drawing, label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_paths"]

_SIDE = 6.0  # inches: longer side of the picture
_THICKEST = 6.0  # points: thickness of the line to an agent that gets all of the attention
_LARGEST = 120.0  # square points: area of the dot of a moment that gets all of the attention


def draw_paths(
    past: Float[np.ndarray, "P N 2"],
    likely: Float[np.ndarray, "F N 2"],
    drawn: Float[np.ndarray, "K F N 2"],
    agents: Sequence[str],
    *,
    true: Float[np.ndarray, "F N 2"] | None = None,
    chosen: int = 0,
    weights: Float[np.ndarray, "N P"] | None = None,
    title: str | None = None,
    dark: bool = False,
) -> Figure:
    """Draw observed paths as solid lines, the most likely futures dashed, sampled futures faint, true futures dotted.

    ``weights`` are how much the first prediction of the agent ``chosen`` attends to each observed time step of every
    agent: the thickness of a line from ``chosen`` to another agent shows the total weight of that agent, and the size
    of a dot the weight of a time step.
    """
    parts = [past, likely, *drawn, *([] if true is None else [true])]
    every = np.concatenate([part.reshape(-1, 2) for part in parts])
    low, high = every.min(axis=0), every.max(axis=0)
    span = np.maximum(high - low, 1e-9) * 1.1
    width, height = _SIDE * span / span.max()
    with drawing(title, dark=dark) as page:
        colours = page.colours
        axes = page.axes(0, 0, max(width, 1.0), max(height, 1.0))
        middle = (low + high) / 2
        axes.set(xlim=middle[0] + np.array([-0.5, 0.5]) * span[0], ylim=middle[1] + np.array([-0.5, 0.5]) * span[1])
        axes.set_aspect("equal", adjustable="datalim")
        for number, name in enumerate(agents):
            mine = number == chosen
            for one in drawn:
                axes.plot(*_joined(past, one, number), color=colours.up, alpha=0.12, linewidth=0.8)
            axes.plot(*_joined(past, likely, number), color=colours.up, linestyle="--", linewidth=1.6)
            if true is not None:
                axes.plot(*_joined(past, true, number), color=colours.gold, linestyle=":", linewidth=1.6)
            axes.plot(*past[:, number].T, color=colours.text, linewidth=2.2 if mine else 1.2)
            x, y = past[-1, number].tolist()
            page.write_in(axes, x, y, " " + label(name), SMALL_SIZE, fontweight="bold" if mine else "normal")
        if weights is not None:
            for number in range(len(agents)):
                if number != chosen:
                    ends = np.stack([past[-1, chosen], past[-1, number]])
                    thickness = _THICKEST * float(weights[number].sum())
                    axes.plot(ends[:, 0], ends[:, 1], color=colours.down, alpha=0.7, linewidth=thickness)
                places, sizes = past[:, number], _LARGEST * weights[number]
                axes.scatter(places[:, 0], places[:, 1], s=sizes, color=colours.down, alpha=0.7, linewidths=0)
        said = "solid: observed; dashed: most likely; faint: sampled" + ("" if true is None else "; dotted: true")
        if weights is not None:
            said += f"; lines and dots: what agent {label(agents[chosen])} looks at"
        page.write(0, height + 3 * GAP, said, SMALL_SIZE, va="top")
    return page.figure


def _joined(past: np.ndarray, future: np.ndarray, agent: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of a future path, starting at the last observed position."""
    path = np.concatenate([past[-1:, agent], future[:, agent]])
    return path[:, 0], path[:, 1]
