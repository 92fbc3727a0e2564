"""A page in inches for matplotlib: text that is shown as it is, sizes that are measured, files that do not vary.

A figure is built without pyplot and grows with what is on it, so labels are never cut and never overlap. Token text
is never mathematics and never markup. A letter that no font of this machine has is shown by its code point in PNG and
PDF; an SVG holds text as text, so there it is whole, can be searched, and the browser shapes any script.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from saccade.errors import FileError, UnknownNameError
from saccade.lens.colours import theme
from saccade.lens.files import write_file
from saccade.lens.words import shorten, visible, visible_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "GAP", "LABEL_SIZE", "MARGIN", "Page", "ThemeName", "drawing", "is_dark", "label", "save"]

#: What a picture is saved as, by the suffix of its file, and the metadata that would tell one run from the next.
FORMATS: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
MARGIN, GAP = 0.15, 0.06  # inches
LABEL_SIZE, TITLE_SIZE, SMALL_SIZE = 10.0, 12.0, 8.0  # points
DPI = 150
LABEL_CELLS = 24  # longer tokens are shortened in the middle

ThemeName = Literal["light", "dark"]


@contextmanager
def drawing(title: str | None = None, *, dark: bool) -> Iterator[Page]:
    """A page to draw on, under the settings that pictures depend on; in the end it is as large as what is on it."""
    from saccade.lens.figures.artists import quiet

    with quiet():
        page = Page(dark=dark)
        yield page
        page.finish(title)


class Page:
    """A figure in inches: x to the right and y down, from wherever the first part was put.

    matplotlib's own layouts shrink what is drawn until it fits a figure of fixed size. Here cells and letters keep
    their sizes, and the figure grows: while it is drawn it is one inch wide and high, so that its units are inches.
    """

    def __init__(self, *, dark: bool) -> None:
        from saccade.lens.figures.artists import Picture

        self.dark, self.colours = dark, theme(dark)
        self.figure = Picture(self.colours.background)
        self.figure.set_size_inches(1, 1)
        self._measured: dict[tuple[object, ...], tuple[float, float]] = {}

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """An area without frame and ticks."""
        width, height = max(width, 1e-3), max(height, 1e-3)
        axes = self.figure.add_axes((left, -top - height, width, height))
        axes.set_axis_off()
        return axes

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of all that is drawn so far, with the longer form of every text."""
        from saccade.lens.figures.artists import extent_of

        left, bottom, right, top = extent_of(self.figure)
        return left, -top, right, -bottom

    def finish(self, title: str | None) -> None:
        """Write the title over everything, and make the figure as large as what is on it."""
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
        """Width and height of a text in inches: of its longer form."""
        from saccade.lens.figures.artists import Label, printable

        asked = (text, size, rotation, *sorted(how.items()))
        if asked not in self._measured:  # words come again and again
            sizes = []
            for form in {text, printable(text)}:
                drawn = Label(0, 0, "", size, rotation=rotation, rotation_mode="anchor", figure=self.figure, **how)
                drawn.set_text(form)
                extent = drawn.get_window_extent(dpi=DPI)
                sizes.append((extent.width / DPI, extent.height / DPI))
            self._measured[asked] = max(width for width, _ in sizes), max(height for _, height in sizes)
        return self._measured[asked]

    def write(self, left: float, top: float, text: str, size: float = LABEL_SIZE, **how: Any) -> None:
        """A text whose top left is at this place."""
        from saccade.lens.figures.artists import Label

        drawn = Label(left, -top, text, size, **{"ha": "left", "va": "top", "color": self.colours.text, **how})
        drawn.set(transform=self.figure.transFigure, figure=self.figure)
        self.figure.texts.append(drawn)

    def write_in(self, axes: Axes, x: float, y: float, text: str, size: float = LABEL_SIZE, **how: Any) -> None:
        """A text at a place of an area, in its own numbers."""
        from saccade.lens.figures.artists import Label

        settings = {"ha": "left", "va": "center_baseline", "color": self.colours.text, **how}
        axes.add_artist(Label(x, y, text, size, **settings))


def label(token: str) -> str:
    """A token as it stands at an axis: nothing hidden, not too long."""
    return shorten(visible(token), LABEL_CELLS)


def is_dark(theme: ThemeName) -> bool:
    if theme not in get_args(ThemeName):
        raise UnknownNameError("theme", theme, get_args(ThemeName))
    return theme == "dark"


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, SVG or PDF, by the suffix of the file: the same figure always gives the same bytes."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise FileError(
            f"{path}: a picture is saved as {', '.join(FORMATS)}, not as {suffix or 'a name without suffix'}."
        )
    from saccade.lens.figures.artists import encode

    return write_file(path, encode(figure, suffix), "picture")
