"""Check images, and weights over their patches, before they are shown in a figure or a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from saccade.errors import OptionError, ShapeError
from saccade.lens.colours import Array

__all__ = ["Overlay", "check_overlays", "checked_image", "in_grey"]

#: A caption, and the weights of the patches (rows, columns).
Overlay = tuple[str, ArrayLike]


def checked_image(image: ArrayLike) -> Array:
    """Return the pixels as numbers from 0 to 1, or raise an error if ``image`` is not an image."""
    pixels = np.asarray(image)
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)) or not pixels.size:
        raise ShapeError(f"An image must have shape (height, width) or (height, width, 3), not {pixels.shape}.")
    scaled: Array = pixels.astype(np.float64) / (255 if pixels.dtype == np.uint8 else 1)
    if not (np.isfinite(scaled).all() and scaled.min() >= 0 and scaled.max() <= 1):
        raise OptionError(
            f"The pixels of an image must be bytes or numbers in 0..1, not {scaled.min()} to {scaled.max()}."
        )
    return scaled


def check_overlays(over: Sequence[Overlay]) -> list[tuple[str, Array]]:
    """Return the captions and weights of the overlays, the weights as arrays; raise an error if their shapes differ."""
    found = [(caption, np.asarray(grid, dtype=np.float64)) for caption, grid in over]
    for caption, grid in found:
        if grid.ndim != 2 or not grid.size or grid.shape != found[0][1].shape:
            raise ShapeError(
                f"The weights of {caption!r} have shape {grid.shape}; expected (rows, columns) of patches, "
                "the same for all overlays."
            )
    return found


def in_grey(pixels: Array) -> Array:
    """Return the luminance (H, W) of an image in grey or in colour."""
    grey: Array = pixels if pixels.ndim == 2 else pixels @ np.array([0.2126, 0.7152, 0.0722])
    return grey
