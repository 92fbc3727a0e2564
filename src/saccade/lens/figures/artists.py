"""Extensions of matplotlib: text that is never read as a formula, and figures that notebooks display without pyplot.

This is the only module of the package that imports matplotlib at import time; the other modules import this one only
inside their drawing functions.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from saccade.extras import needs_extra
from saccade.lens.colours import difference_ramp, ramp
from saccade.lens.figures.canvas import DPI, LABEL_CELLS, LABEL_SIZE
from saccade.lens.figures.formats import encode
from saccade.lens.words import code_point, shorten

with needs_extra("plots", "Drawing a picture"):
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import Colormap, ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties, findfont, get_font, get_font_names
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

__all__ = ["Label", "Picture", "colormap", "extent_of", "fixed_settings", "full_text", "printable"]

# Fonts for characters that DejaVu Sans lacks; those that are installed are used.
_MORE_FONTS = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "Hiragino Sans", "PingFang SC"),
    *("Yu Gothic", "Microsoft YaHei", "Malgun Gothic", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari"),
    *("Noto Sans Thai", "Noto Emoji", "Segoe UI Emoji", "Segoe UI Symbol", "Symbola", "Arial Unicode MS"),
    *("Noto Serif CJK JP", "Source Han Sans", "Droid Sans Fallback", "IPAexGothic", "IPAGothic", "NanumGothic"),
    *("AR PL UMing CN", "Lohit Devanagari", "Nirmala UI", "Mangal", "Kohinoor Devanagari", "Devanagari MT"),
    *("Kurinto Sans", "FreeSans", "Unifont"),
)

_FIXED: dict[Any, Any] = {
    "svg.hashsalt": "saccade",
    "svg.fonttype": "none",  # keep text as text
    "savefig.bbox": None,
    "savefig.transparent": False,
}
# matplotlib's settings and Python's warning filters belong to the process, so one thread at a time changes them.
_settings = threading.RLock()


class Picture(Figure):
    """A matplotlib figure that a notebook displays as a PNG picture, without pyplot."""

    def __init__(self, background: str) -> None:
        super().__init__(dpi=DPI, facecolor=background)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        return encode(self, ".png")


class Label(Text):
    """Text that shows a code point such as U+1F600 for each character that no installed font has.

    ``whole`` is the original text, which is what an SVG file contains.
    """

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


def printable(text: str) -> str:
    """Return the text with a code point for each character that no installed font has, shortened to a label's length.

    A text that the fonts can show completely is returned unchanged, at any length.
    """
    shown = "".join(character if ord(character) in _code_points() else code_point(character) for character in text)
    return text if shown == text else shorten(shown, max(LABEL_CELLS, len(text)))


def colormap(*, dark: bool = False, differences: bool = False) -> Colormap:
    """Return the project's colour scale as a matplotlib colormap.

    It has 256 colours for weights from 0 to 1, or with ``differences`` 511 colours for differences from -1 to 1.
    """
    if differences:
        colours, name = difference_ramp(np.linspace(-1, 1, 511), dark=dark), "saccade-differences"
    else:
        colours, name = ramp(np.linspace(0, 1, 256), dark=dark), "saccade-weights"
    return ListedColormap(colours, name=f"{name}-dark" if dark else name)  # type: ignore[arg-type, unused-ignore]


def extent_of(figure: Figure) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of the drawing in inches.

    They leave room for both forms of each text: the original, and the one with code points for missing characters.
    """
    boxes = [figure.get_tightbbox()]
    if any(isinstance(text, Label) and text.whole != text.get_text() for text in figure.findobj(Label)):
        with full_text(figure):
            boxes.append(figure.get_tightbbox())
    union = Bbox.union(boxes)
    return float(union.x0), float(union.y0), float(union.x1), float(union.y1)


@contextmanager
def fixed_settings() -> Iterator[None]:
    """Inside the block, fix the settings that files depend on, and silence warnings about missing glyphs."""
    with _settings, matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcParams.update(_FIXED)
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield


@contextmanager
def full_text(figure: Figure | None) -> Iterator[None]:
    """Inside the block, the figure's labels have their original text instead of code points, as an SVG file needs."""
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
def _code_points() -> frozenset[int]:
    """Return the code points of all characters that the fonts have."""
    fonts = (get_font(findfont(FontProperties(family=[family]))) for family in _families()[:-1])
    return frozenset().union(*(font.get_charmap() for font in fonts))
