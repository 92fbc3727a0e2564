"""Draw what one query attends to in an image: its weights over the patches, on top of the image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from numpy.typing import ArrayLike

from saccade.errors import ShapeError
from saccade.lens.figures.canvas import GAP, ThemeName, drawing, is_dark
from saccade.lens.figures.drawable import as_array, scale_end
from saccade.lens.figures.matrix import SCALE_HEIGHT, Scale
from saccade.lens.figures.overlays import draw_image
from saccade.lens.images import checked_image, in_grey
from saccade.lens.view import Head, View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["patches"]

_SIDE = 3.2  # inches: longer side of the image


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
    """Draw an image beside a grey copy of it that is overlaid with the weights of one query on its patches.

    Args:
        image: pixels (H, W) or (H, W, 3), as bytes or as numbers from 0 to 1.
        grid: the number of rows and columns of patches.
        row: the query, of which 0 is the class token if there is one; "mean" averages over all queries.
        scale: the weight drawn in the strongest colour; None takes the largest weight.
    """
    name = name or view.names[-1]
    pixels = checked_image(image)
    weights = as_array(view.matrix(name, head).mean(0) if row == "mean" else view.one_row(name, row, head))
    first = int(class_token)
    if len(weights) != first + grid[0] * grid[1]:
        expected = f"{grid[0]}×{grid[1]} patches" + (" and a class token" if class_token else "")
        raise ShapeError(f"{name} has {len(weights)} keys, but {expected} need {first + grid[0] * grid[1]}.")
    over = weights[first:].reshape(grid)
    end = Scale(scale_end(scale, over))
    query = "mean of all queries" if row == "mean" else "class token" if class_token and row == 0 else f"query {row}"
    title = title or f"{view.describe(name, head)}, {query}"
    note = f"class token itself {weights[0]:.2f}, patches {over.sum():.2f}" if class_token else ""
    with drawing(title, dark=is_dark(theme)) as page:
        height, width = (_SIDE * length / max(pixels.shape[:2]) for length in pixels.shape[:2])
        draw_image(page, (0, 0, width, height), pixels)
        second, below = width + 2 * GAP, height + 3 * GAP
        draw_image(page, (second, 0, width, height), in_grey(pixels), over, end)
        end.draw(page, second, below, float(over.max()))
        if note:
            page.write(second, below + SCALE_HEIGHT, note)
    return page.figure
