"""The colour scale of every picture: weight 0 is the background colour, and 1 is the ink colour.

The colours lie on a quadratic Bézier curve in OKLab (Ottosson 2020), a colour space in which equal steps look equal.
Lightness changes linearly from background to ink, so the order of weights is visible with any colour blindness and in
a black-and-white print; only the hue does not change linearly. Differences between weights have two such curves, blue
above 0 and orange below, which people with any common colour blindness can tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "Theme", "contrast", "difference_ramp", "ramp", "theme"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Theme:
    """The basic colours of a light or dark picture; all others lie on curves between them."""

    background: str
    ink: str
    up: str  # the largest positive difference
    down: str  # the largest negative difference
    bend: tuple[float, float]  # the hue halfway between background and ink: OKLab's a and b
    text: str
    grid: str
    gold: str  # the outline of gold links


_LIGHT = Theme("#ffffff", "#0a1a33", "#1450a3", "#8f3700", (-0.05, -0.2), "#1c2430", "#e3e6ea", "#d55e00")
_DARK = Theme("#11161d", "#f3f8ff", "#9cc9ff", "#ffb37a", (-0.05, -0.2), "#dfe5ec", "#262e38", "#ff9a3d")

_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # luminance of linear red, green and blue
# The two matrices of Ottosson 2020: linear sRGB to cone responses, and the cube roots of those to OKLab.
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def theme(dark: bool = False) -> Theme:
    """Return the colours of a light or a dark picture."""
    return _DARK if dark else _LIGHT


def ramp(weights: ArrayLike, *, dark: bool = False) -> Float[np.ndarray, "*shape 3"]:
    """Return the colour of each weight as red, green and blue in 0..1; weights below 0 are drawn as 0, and weights
    above 1 as 1."""
    colours = theme(dark)
    return _curve(np.clip(np.asarray(weights, dtype=np.float64), 0, 1), colours.background, colours.ink, colours.bend)


def difference_ramp(differences: ArrayLike, *, dark: bool = False) -> Float[np.ndarray, "*shape 3"]:
    """Return the colour of each difference, from -1 to 1: the background colour at 0, blue above, orange below."""
    colours = theme(dark)
    values = np.clip(np.asarray(differences, dtype=np.float64), -1, 1)
    up = _curve(np.abs(values), colours.background, colours.up)
    down = _curve(np.abs(values), colours.background, colours.down)
    return np.where(values[..., None] >= 0, up, down)


def contrast(one: str | ArrayLike, other: str | ArrayLike) -> float:
    """Return how well one colour can be read on another, from 1 to 21 (WCAG 2.1: the ratio of their luminances)."""
    darker, lighter = sorted(float(_linear(_red_green_blue(colour)) @ _LUMINANCE) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def to_oklab(colours: Float[np.ndarray, "*shape 3"]) -> Float[np.ndarray, "*shape 3"]:
    """Convert sRGB colours in 0..1 to lightness and the two axes of hue."""
    lab: Array = np.cbrt(_linear(colours) @ _CONES.T) @ _LAB.T
    return lab


def from_oklab(lab: Float[np.ndarray, "*shape 3"]) -> Float[np.ndarray, "*shape 3"]:
    """Invert ``to_oklab``; colours that a screen cannot show are clipped."""
    linear = ((lab @ np.linalg.inv(_LAB).T) ** 3) @ np.linalg.inv(_CONES).T
    linear = np.clip(linear, 0, 1)
    colours: Array = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return colours


def _red_green_blue(colour: str | ArrayLike) -> Array:
    """Return a colour, given as numbers in 0..1 or as ``#rrggbb``, as numbers in 0..1."""
    if isinstance(colour, str):
        return np.frombuffer(bytes.fromhex(colour.removeprefix("#")), dtype=np.uint8) / 255
    return np.asarray(colour, dtype=np.float64)


def _linear(colours: Array) -> Array:
    """Convert sRGB to linear light."""
    linear: Array = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    return linear


def _curve(values: Array, start: str, end: str, bend: tuple[float, float] | None = None) -> Array:
    """Return points on the curve from one colour (at 0) to another (at 1)."""
    first, last = to_oklab(_red_green_blue(start)), to_oklab(_red_green_blue(end))
    middle = (first + last) / 2
    if bend is not None:
        middle[1:] = bend
    share = values[..., None]
    return from_oklab((1 - share) ** 2 * first + 2 * share * (1 - share) * middle + share**2 * last)
