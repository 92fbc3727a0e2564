"""A page in inches for matplotlib: text that is shown as it is, sizes that are measured, files that do not vary.

A figure is built without pyplot and grows with what is on it, so labels are never cut and never overlap. Token text
is never mathematics and never markup. A letter that no font of this machine has is shown by its code point in PNG and
PDF; an SVG holds text as text, so there it is whole, can be searched, and the browser shapes any script.
"""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font, get_font_names
from matplotlib.text import Text

from saccade.errors import FileError
from saccade.lens.files import write_file
from saccade.lens.ramp import theme
from saccade.lens.words import code_point, shorten, visible, visible_text

__all__ = ["FORMATS", "GAP", "LABEL_SIZE", "MARGIN", "Label", "Page", "label", "save"]

#: What a picture is saved as, by the suffix of its file, and the metadata that would tell one run from the next.
FORMATS: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
MARGIN, GAP = 0.15, 0.06  # inches
LABEL_SIZE, TITLE_SIZE, SMALL_SIZE = 10.0, 12.0, 8.0  # points

_DPI = 150
_LABEL_CELLS = 24  # longer tokens are shortened in the middle

# Fonts that have what DejaVu Sans lacks; those that are installed are used.
_MORE_FONTS = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "Hiragino Sans", "PingFang SC"),
    *("Yu Gothic", "Microsoft YaHei", "Malgun Gothic", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Noto Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Symbola", "Arial Unicode MS"),
    *("Noto Serif CJK JP", "Source Han Sans", "Droid Sans Fallback", "IPAexGothic", "IPAGothic", "NanumGothic"),
    *("AR PL UMing CN", "Lohit Devanagari", "FreeSans", "Unifont"),
)

_FIXED: dict[Any, Any] = {
    "svg.hashsalt": "saccade",
    "svg.fonttype": "none",  # text as text
    "savefig.bbox": None,
    "savefig.transparent": False,
}
# matplotlib's settings and Python's warning filters are the process's: one thread at a time changes them.
_settings = threading.RLock()


class Label(Text):
    """Text as the fonts of this machine can print it; ``whole`` is what an SVG holds."""

    def __init__(self, x: float, y: float, text: str, size: float = LABEL_SIZE, **how: Any) -> None:
        self.whole = text
        settings: dict[str, Any] = {
            "fontsize": size,
            "fontfamily": _families(),
            "parse_math": False,
            "usetex": False,
            "clip_on": False,
        }
        super().__init__(x, y, printable(text), **settings, **how)


class Page:
    """A figure in inches from the top left; its size is set once everything has been measured."""

    def __init__(self, *, dark: bool) -> None:
        self.dark, self.colours = dark, theme(dark)
        self.figure = Figure(dpi=_DPI, facecolor=self.colours.background)
        self.width = self.height = 1.0
        self._measured: dict[tuple[object, ...], tuple[float, float]] = {}
        FigureCanvasAgg(self.figure)

    def resize(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure.set_size_inches(width, height)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """An area without frame and ticks."""
        width, height = max(width, 1e-3), max(height, 1e-3)
        bottom = self.height - top - height
        place = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        axes = self.figure.add_axes(place)
        axes.set_axis_off()
        return axes

    def measure(self, text: str, size: float = LABEL_SIZE, rotation: float = 0, **how: Any) -> tuple[float, float]:
        """Width and height of a text in inches: of its longer form."""
        asked = (text, size, rotation, *sorted(how.items()))
        if asked not in self._measured:  # words come again and again
            forms = [self._extent(form, size, rotation, how) for form in {text, printable(text)}]
            self._measured[asked] = max(width for width, _ in forms), max(height for _, height in forms)
        return self._measured[asked]

    def _extent(self, text: str, size: float, rotation: float, how: dict[str, Any]) -> tuple[float, float]:
        drawn = Label(0, 0, "", size, rotation=rotation, rotation_mode="anchor", figure=self.figure, **how)
        drawn.set_text(text)
        extent = drawn.get_window_extent(dpi=_DPI)
        return extent.width / _DPI, extent.height / _DPI

    def write(self, left: float, top: float, text: str, size: float = LABEL_SIZE, **how: Any) -> None:
        """A text whose top left is at this place."""
        settings = {"ha": "left", "va": "top", "color": self.colours.text, **how}
        drawn = Label(left / self.width, 1 - top / self.height, text, size, **settings)
        drawn.set(transform=self.figure.transFigure, figure=self.figure)
        self.figure.add_artist(drawn)

    def measure_title(self, title: str | None) -> tuple[float, float]:
        """Width of a title, and the height that it takes with the gap under it."""
        if not title:
            return 0.0, 0.0
        width, height = self.measure(visible_text(title), TITLE_SIZE)
        return width, height + 2 * GAP

    def write_title(self, title: str | None) -> None:
        if title:
            self.write(MARGIN, MARGIN, visible_text(title), TITLE_SIZE)


def label(token: str) -> str:
    """A token as it stands at an axis: nothing hidden, not too long."""
    return shorten(visible(token), _LABEL_CELLS)


def printable(text: str) -> str:
    """The text with the code points of letters that no font has, as short as it was meant to be."""
    shown = "".join(character if _has_glyph(character) else code_point(character) for character in text)
    return text if shown == text else shorten(shown, max(_LABEL_CELLS, len(text)))


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, SVG or PDF, by the suffix of the file: the same figure gives the same bytes."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise FileError(
            f"{path}: a picture is saved as {', '.join(FORMATS)}; not as {suffix or 'a name without suffix'}."
        )
    content = io.BytesIO()
    with quiet(), _whole_text(figure if suffix == ".svg" else None):
        figure.savefig(content, format=suffix[1:], dpi=_DPI, facecolor=figure.get_facecolor(), metadata=FORMATS[suffix])
    return write_file(path, content.getvalue(), "picture")


@contextmanager
def quiet() -> Iterator[None]:
    """The settings that the output depends on, and no warning about a letter that no font has."""
    with _settings, matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcParams.update(_FIXED)
        warnings.filterwarnings("ignore", message=r"(Glyph .* missing from|Matplotlib currently does not support)")
        yield


@contextmanager
def _whole_text(figure: Figure | None) -> Iterator[None]:
    """The letters themselves instead of their code points, for as long as an SVG is written."""
    labels = [] if figure is None else [found for found in figure.findobj(Label) if isinstance(found, Label)]
    for found in labels:
        found.set_text(found.whole)
    try:
        yield
    finally:
        for found in labels:
            found.set_text(printable(found.whole))


@cache
def _families() -> list[str]:
    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _MORE_FONTS if name in installed), "sans-serif"]


@cache
def _has_glyph(character: str) -> bool:
    return any(ord(character) in _characters(family) for family in _families()[:-1])


@cache
def _characters(family: str) -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=[family]))).get_charmap())
