"""What one query looks at in an image: its weights over the patches, drawn over the picture itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from saccade.errors import ShapeError
from saccade.lens.figures.canvas import GAP, MARGIN, Page, ThemeName, drawing, is_dark
from saccade.lens.figures.drawable import Array, as_array, scale_end
from saccade.lens.figures.panel import SCALE_HEIGHT, SCALE_WIDTH, Scale
from saccade.lens.images import checked_image, in_grey
from saccade.lens.view import Head, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["patches"]

_SIDE = 3.2  # inches, of the longer side of the image


def patches(
    view: View,
    name: str | None = None,
    head: Head = "mean",
    *,
    image: ArrayLike,
    grid: tuple[int, int],
    row: int | Literal["mean"] = 0,
    class_token: bool = True,
    scale: float | None = None,
    title: str | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """The image (H, W) or (H, W, 3), and beside it the weights of its ``grid`` of patches, rows first, laid over it.

    ``row`` is the query: 0 is the class token where there is one; "mean" is the mean over all queries. The numbers
    of an image are bytes, or lie in 0..1. ``scale`` is the weight that is drawn as full ink; None takes the largest.
    """
    name = name or view.names[-1]
    pixels = checked_image(image)
    weights = as_array(view.matrix(name, head).mean(0) if row == "mean" else view.one_row(name, row, head))
    first = int(class_token)
    if len(weights) != first + grid[0] * grid[1]:
        asked = f"{grid[0]}×{grid[1]} patches" + (" and a class token" if class_token else "")
        raise ShapeError(f"{name} has {len(weights)} keys, which are not {asked}.")
    over = weights[first:].reshape(grid)
    end = Scale(scale_end(scale, over))
    said = title or f"{view.describe(name, head)}, {_query(row, class_token)}"
    note = f"class token itself {weights[0]:.2f}, patches {over.sum():.2f}" if class_token else ""
    with drawing(dark=is_dark(theme)) as page:
        _draw(page, pixels, over, end, said, note)
    return page.figure


def _draw(page: Page, pixels: Array, over: Array, scale: Scale, title: str, note: str) -> None:
    height, width = (_SIDE * size / max(pixels.shape[:2]) for size in pixels.shape[:2])
    title_width, title_height = page.measure_title(title)
    top = MARGIN + title_height
    second = MARGIN + width + 2 * GAP
    below = top + height + 3 * GAP
    lines = page.measure("note")[1] + GAP if note else 0.0
    right = max(second + max(width, SCALE_WIDTH), MARGIN + title_width, second + page.measure(note)[0])
    page.resize(right + MARGIN, below + SCALE_HEIGHT + lines + MARGIN)
    page.write_title(title)
    around = (-0.5, pixels.shape[1] - 0.5, pixels.shape[0] - 0.5, -0.5)
    grey = in_grey(pixels)
    shown: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "nearest", "aspect": "auto"}
    page.axes(MARGIN, top, width, height).imshow(pixels, **shown)
    axes = page.axes(second, top, width, height)
    axes.imshow(grey, **shown)
    colours = scale.colours(dark=page.dark)
    axes.imshow(over, extent=around, interpolation="nearest", alpha=0.65, aspect="auto", **colours)
    axes.set(xlim=around[:2], ylim=around[2:])
    scale.draw(page, second, below, float(over.max()))
    if note:
        page.write(second, below + SCALE_HEIGHT, note)


def _query(row: int | Literal["mean"], class_token: bool) -> str:
    if row == "mean":
        return "mean of all queries"
    return "class token" if class_token and row == 0 else f"query {row}"
