"""A canvas for matplotlib that is measured in inches.

A figure is built without pyplot and grows with its content, so labels are never cut off and never overlap. The text
of a token is never interpreted as mathematics or markup. PNG and PDF files show the code point of a character that no
font of this machine has. An SVG keeps text as text, so it can be searched and the browser can render any script.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

from saccade.errors import UnknownNameError
from saccade.lens.colours import theme
from saccade.lens.words import shorten, visible, visible_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GAP", "LABEL_SIZE", "MARGIN", "Canvas", "ThemeName", "drawing", "is_dark", "label"]

MARGIN, GAP = 0.15, 0.06  # inches
LABEL_SIZE, TITLE_SIZE, SMALL_SIZE = 10.0, 12.0, 8.0  # points
DPI = 150
LABEL_CELLS = 24  # longer tokens are shortened in the middle

ThemeName = Literal["light", "dark"]


@contextmanager
def drawing(title: str | None = None, *, dark: bool) -> Iterator[Canvas]:
    """Yield a canvas to draw on; when the block ends, add the title and fit the size of the figure to its content."""
    from saccade.lens.figures.artists import fixed_settings

    with fixed_settings():
        canvas = Canvas(dark=dark)
        yield canvas
        canvas.finish(title)


class Canvas:
    """A figure measured in inches, with x to the right and y downwards. Coordinates may be negative.

    matplotlib's own layouts shrink the content to a figure of fixed size. Here cells and letters keep their size and
    the figure grows. Until `finish` sets its size, the figure is one inch wide and high, so that matplotlib's figure
    coordinates are inches.
    """

    def __init__(self, *, dark: bool) -> None:
        from saccade.lens.figures.artists import Picture

        self.dark, self.colours = dark, theme(dark)
        self.figure = Picture(self.colours.background)
        self.figure.set_size_inches(1, 1)
        self._measured: dict[tuple[object, ...], tuple[float, float]] = {}

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add matplotlib axes without frame and ticks at this position, in inches."""
        width, height = max(width, 1e-3), max(height, 1e-3)
        axes = self.figure.add_axes((left, -top - height, width, height))
        axes.set_axis_off()
        return axes

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of what has been drawn so far, in inches.

        They leave room for both forms of each text: the original, and the one with code points for missing characters.
        """
        from saccade.lens.figures.artists import extent_of

        left, bottom, right, top = extent_of(self.figure)
        return left, -top, right, -bottom

    def finish(self, title: str | None) -> None:
        """Write the title above the drawing, and fit the size of the figure to its content."""
        left, top, right, bottom = self.extent
        if title:
            self.write(left, top - 2 * GAP, visible_text(title), TITLE_SIZE, va="bottom")
            width, height = self.measure(visible_text(title), TITLE_SIZE)
            right, top = max(right, left + width), top - 2 * GAP - height
        width, height = right - left + 2 * MARGIN, bottom - top + 2 * MARGIN
        for axes in self.figure.axes:
            x, y, across, up = axes.get_position(original=True).bounds
            x, y = (x - left + MARGIN) / width, (y + bottom + MARGIN) / height
            axes.set_position((x, y, across / width, up / height))
        for text in self.figure.texts:
            x, y = text.get_position()
            text.set_position(((x - left + MARGIN) / width, (y + bottom + MARGIN) / height))
        self.figure.set_size_inches(width, height)

    def measure(self, text: str, size: float = LABEL_SIZE, rotation: float = 0, **how: Any) -> tuple[float, float]:
        """Return the width and height that a text needs, in inches.

        Each is the larger one of two: of the original text, and of the text with code points for missing characters.
        """
        from saccade.lens.figures.artists import Label, printable

        key = (text, size, rotation, *sorted(how.items()))
        if key not in self._measured:  # the same words occur again and again
            sizes = []
            for form in {text, printable(text)}:
                drawn = Label(0, 0, "", size, rotation=rotation, rotation_mode="anchor", figure=self.figure, **how)
                drawn.set_text(form)
                extent = drawn.get_window_extent(dpi=DPI)
                sizes.append((extent.width / DPI, extent.height / DPI))
            self._measured[key] = max(width for width, _ in sizes), max(height for _, height in sizes)
        return self._measured[key]

    def write(self, left: float, top: float, text: str, size: float = LABEL_SIZE, **how: Any) -> None:
        """Write a text with its top left corner at this position."""
        from saccade.lens.figures.artists import Label

        drawn = Label(left, -top, text, size, **{"ha": "left", "va": "top", "color": self.colours.text, **how})
        drawn.set(transform=self.figure.transFigure, figure=self.figure)
        self.figure.texts.append(drawn)

    def write_in(self, axes: Axes, x: float, y: float, text: str, size: float = LABEL_SIZE, **how: Any) -> None:
        """Write a text into ``axes``, at a position in the data coordinates of these axes."""
        from saccade.lens.figures.artists import Label

        settings = {"ha": "left", "va": "center_baseline", "color": self.colours.text, **how}
        axes.add_artist(Label(x, y, text, size, **settings))


def label(token: str) -> str:
    """Return a token as an axis label, with invisible characters shown and long text shortened."""
    return shorten(visible(token), LABEL_CELLS)


def is_dark(theme: ThemeName) -> bool:
    if theme not in get_args(ThemeName):
        raise UnknownNameError("theme", theme, get_args(ThemeName))
    return theme == "dark"
