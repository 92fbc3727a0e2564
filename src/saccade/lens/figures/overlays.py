"""Draw an image beside copies of it, each overlaid with the attention weights of one word or step on its patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from saccade.lens.figures.canvas import GAP, SMALL_SIZE, Canvas, drawing
from saccade.lens.figures.drawable import Array, scale_end
from saccade.lens.figures.matrix import Scale
from saccade.lens.images import Overlay, check_overlays, checked_image, in_grey
from saccade.lens.words import shorten, visible_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_image", "images_side_by_side", "overlays"]

_SIDE = 1.9  # inches: longer side of an image
_ACROSS = 6  # maximum number of images in a row
_CAPTION = 24  # maximum number of letters in a caption


def overlays(image: ArrayLike, over: Sequence[Overlay], *, title: str | None = None, dark: bool = False) -> Figure:
    """Draw the image, then a grey copy for each overlay of attention weights.

    All overlays share one colour scale: the strongest colour is the largest weight of all of them.
    """
    pixels = checked_image(image)
    weights = check_overlays(over)
    largest = max((float(grid.max()) for _, grid in weights), default=0.0)
    scale = Scale(scale_end(None, np.array([largest])))
    # Pale, or dark on a dark page, so that the colours of the weights look the same on every picture.
    grey = (0.0 if dark else 0.4) + 0.6 * in_grey(pixels)
    parts: list[tuple[str, Array, Array | None]] = [("image", pixels, None)]
    parts += [(caption, grey, grid) for caption, grid in weights]
    return _draw(parts, title, scale if weights else None, dark)


def images_side_by_side(
    shown: Sequence[tuple[str, ArrayLike]], *, title: str | None = None, dark: bool = False
) -> Figure:
    """Draw several images, each with a caption."""
    return _draw([(caption, checked_image(image), None) for caption, image in shown], title, None, dark)


def _draw(
    parts: Sequence[tuple[str, Array, Array | None]], title: str | None, scale: Scale | None, dark: bool
) -> Figure:
    tallest, widest = parts[0][1].shape[:2]
    height, width = (_SIDE * size / max(tallest, widest) for size in (tallest, widest))
    captions = [shorten(visible_text(caption), _CAPTION) for caption, _, _ in parts]
    down = -(-len(parts) // _ACROSS)
    across = -(-len(parts) // down)
    with drawing(title, dark=dark) as page:
        sizes = [page.measure(caption or "x", SMALL_SIZE) for caption in captions]
        step_across = max(width, *(wide for wide, _ in sizes)) + 2 * GAP
        step_down = height + max(high for _, high in sizes) + 3 * GAP
        for number, (caption, (_, pixels, grid)) in enumerate(zip(captions, parts, strict=True)):
            left, top = number % across * step_across, number // across * step_down
            page.write(left, top - GAP, caption, SMALL_SIZE, va="bottom")
            draw_image(page, (left, top, width, height), pixels, grid, scale)
        if scale is not None:
            scale.draw(page, 0, (down - 1) * step_down + height + 3 * GAP, scale.high)
    return page.figure


def draw_image(
    page: Canvas,
    place: tuple[float, float, float, float],
    pixels: Array,
    over: Array | None = None,
    scale: Scale | None = None,
) -> None:
    """Draw an image at ``place`` (left, top, width, height), overlaid with ``over``, the weights of its patches."""
    axes = page.axes(*place)
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
    if over is not None and scale is not None:
        around = (-0.5, pixels.shape[1] - 0.5, pixels.shape[0] - 0.5, -0.5)
        colours = scale.colours(dark=page.dark)
        axes.imshow(over, extent=around, interpolation="nearest", alpha=0.65, aspect="auto", **colours)
        axes.set(xlim=around[:2], ylim=around[2:])
