"""Print images in a terminal: in colour with two pixels per character, or in shades if the terminal has no colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.text import Text

from saccade.lens.colours import Array
from saccade.lens.images import Overlay, check_overlays, checked_image, in_grey
from saccade.lens.terminal.heatmap import left_aligned, line, shades_for

__all__ = ["TerminalImages"]

_SMALLEST = 16  # pixels; a smaller image is enlarged
_LARGEST = 56  # maximum number of pixels across
_GAP = "  "
_TINT = np.array([1.0, 0.55, 0.1])  # colour of the weights: orange stands out from any grey


@dataclass(frozen=True)
class TerminalImages:
    """Images side by side, followed by copies of the first one, each with an overlay of weights."""

    images: Sequence[tuple[str, ArrayLike]]  # caption, pixels (H, W) or (H, W, 3)
    over: Sequence[Overlay] = field(default_factory=list)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        has_colours = console.color_system is not None and not options.ascii_only and not console.no_color
        parts = self._parts(has_colours)
        cell = 1 if has_colours else 2  # characters per pixel: two shades make a pixel about square
        across = max(1, (options.max_width + len(_GAP)) // (parts[0][1].shape[1] * cell + len(_GAP)))
        shades = shades_for(options)
        for start in range(0, len(parts), across):
            row = parts[start : start + across]
            width = row[0][1].shape[1] * cell
            yield line(_GAP.join(left_aligned(caption, width) for caption, _ in row), options)
            drawn = [_half_blocks(pixels) if has_colours else _shaded(pixels, shades) for _, pixels in row]
            for texts in zip(*drawn, strict=True):
                yield Text(_GAP, no_wrap=True, overflow="crop").join(texts)

    def _parts(self, has_colours: bool) -> list[tuple[str, Array]]:
        """Return captions, and pixels (H, W, 3) of one size."""
        first = checked_image(self.images[0][1])
        pictures = [(caption, checked_image(image)) for caption, image in self.images]
        parts = [(caption, np.stack([p] * 3, axis=2) if p.ndim == 2 else p) for caption, p in pictures]
        grey = in_grey(first)
        weights = check_overlays(self.over)
        largest = max((float(grid.max()) for _, grid in weights), default=0.0) or 1.0
        for caption, grid in weights:
            share = _stretched(grid / largest, grey.shape)[..., None]
            tinted = 0.7 * grey[..., None] * (1 - share) + share * _TINT if has_colours else share.repeat(3, axis=2)
            parts.append((caption, tinted))
        return [(caption, _resized(pixels)) for caption, pixels in parts]


def _stretched(grid: Array, shape: tuple[int, ...]) -> Array:
    """Return the weight of the patch that each pixel lies in."""
    rows, columns = (np.arange(size) * count // size for size, count in zip(shape, grid.shape, strict=True))
    stretched: Array = grid[rows][:, columns]
    return stretched


def _resized(pixels: Array) -> Array:
    """Enlarge small images by a whole factor, and shrink large ones by leaving pixels out."""
    height, width = pixels.shape[:2]
    if max(height, width) < _SMALLEST:
        factor = -(-_SMALLEST // max(height, width))
        return pixels.repeat(factor, axis=0).repeat(factor, axis=1)
    step = -(-max(height, width) // _LARGEST)
    return pixels[::step, ::step]


def _half_blocks(pixels: Array) -> list[Text]:
    """Draw two rows of pixels as one line of characters, whose upper and lower halves have different colours."""
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    numbers = np.clip(np.round(pixels * 255), 0, 255).astype(int)
    lines = []
    for upper, lower in zip(numbers[::2], numbers[1::2], strict=True):
        text = Text(no_wrap=True)
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            text.append("▀", Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below)))
        lines.append(text)
    return lines


def _shaded(pixels: Array, shades: str) -> list[Text]:
    """Draw brighter pixels as denser characters, two for each pixel."""
    places = np.clip((in_grey(pixels) * len(shades)).astype(int), 0, len(shades) - 1)
    return [Text("".join(shades[place] * 2 for place in row), no_wrap=True) for row in places.tolist()]
