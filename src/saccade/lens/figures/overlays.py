"""An image, and beside it one copy for each of several weights over its patches: word by word, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from saccade.lens.figures.canvas import GAP, MARGIN, SMALL_SIZE, Page, drawing
from saccade.lens.figures.drawable import Array, scale_end
from saccade.lens.figures.panel import SCALE_HEIGHT, SCALE_WIDTH, Scale
from saccade.lens.images import Overlay, check_overlays, checked_image, in_grey
from saccade.lens.words import shorten, visible_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["images_side_by_side", "overlays"]

_AREA = 1.9  # inches, of the longer side of one image
_ACROSS = 6  # images in a row, at most
_CAPTION = 24  # letters of a caption, at most


def overlays(image: ArrayLike, over: Sequence[Overlay], *, title: str | None = None, dark: bool = False) -> Figure:
    """The image as it is, then a grey copy for each overlay, all with one scale: the largest weight is full ink."""
    pixels = checked_image(image)
    weights = check_overlays(over)
    largest = max((float(grid.max()) for _, grid in weights), default=0.0)
    scale = Scale(scale_end(None, np.array([largest])))
    grey = in_grey(pixels)
    parts: list[tuple[str, Array, Array | None]] = [("image", pixels, None)]
    parts += [(caption, grey, grid) for caption, grid in weights]
    with drawing(dark=dark) as page:
        _draw(page, parts, title, scale if weights else None)
    return page.figure


def images_side_by_side(
    shown: Sequence[tuple[str, ArrayLike]], *, title: str | None = None, dark: bool = False
) -> Figure:
    """Several images, each with a caption."""
    with drawing(dark=dark) as page:
        _draw(page, [(caption, checked_image(image), None) for caption, image in shown], title, None)
    return page.figure


def _draw(page: Page, parts: Sequence[tuple[str, Array, Array | None]], title: str | None, scale: Scale | None) -> None:
    tallest, widest = parts[0][1].shape[:2]
    height, width = (_AREA * size / max(tallest, widest) for size in (tallest, widest))
    captions = [shorten(visible_text(caption), _CAPTION) for caption, _, _ in parts]
    caption_height = max(page.measure(caption or "x", SMALL_SIZE)[1] for caption in captions) + GAP
    step_across = max(width, *(page.measure(caption, SMALL_SIZE)[0] for caption in captions)) + 2 * GAP
    step_down = height + caption_height + 2 * GAP
    down = -(-len(parts) // _ACROSS)
    across = -(-len(parts) // down)
    title_width, title_height = page.measure_title(title)
    top = MARGIN + title_height
    below = top + down * step_down
    wide = max(across * step_across, title_width, SCALE_WIDTH if scale else 0.0)
    page.resize(wide + 2 * MARGIN, below + (SCALE_HEIGHT + GAP if scale else 0.0) + MARGIN)
    page.write_title(title)
    for number, (caption, (_, pixels, grid)) in enumerate(zip(captions, parts, strict=True)):
        left, high = MARGIN + number % across * step_across, top + number // across * step_down
        page.write(left, high, caption, SMALL_SIZE)
        _draw_one(page, (left, high + caption_height, width, height), pixels, grid, scale)
    if scale is not None:
        scale.draw(page, MARGIN, below, scale.high)


def _draw_one(
    page: Page, place: tuple[float, float, float, float], pixels: Array, grid: Array | None, scale: Scale | None
) -> None:
    shown: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "nearest", "aspect": "auto"}
    axes = page.axes(*place)
    axes.imshow(pixels, **shown)
    if grid is not None and scale is not None:
        around = (-0.5, pixels.shape[1] - 0.5, pixels.shape[0] - 0.5, -0.5)
        colours = scale.colours(dark=page.dark)
        axes.imshow(grid, extent=around, interpolation="nearest", alpha=0.65, aspect="auto", **colours)
        axes.set(xlim=around[:2], ylim=around[2:])
