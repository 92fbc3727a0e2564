"""What matplotlib draws for us: text that is shown as it is, and figures that show themselves in a notebook.

Of this package only this module imports matplotlib when it is imported itself, so the others import it where they draw.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from saccade.extras import needs_extra
from saccade.lens.colours import difference_ramp, ramp
from saccade.lens.figures.canvas import DPI, FORMATS, LABEL_CELLS, LABEL_SIZE
from saccade.lens.words import code_point, shorten

with needs_extra("plots", "Drawing a picture"):
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import Colormap, ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties, findfont, get_font, get_font_names
    from matplotlib.text import Text
from matplotlib.transforms import Bbox

__all__ = ["Label", "Picture", "colormap", "encode", "extent_of", "printable", "quiet"]

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


class Picture(Figure):
    """A figure that a notebook shows as a picture, without pyplot."""

    def __init__(self, background: str) -> None:
        super().__init__(dpi=DPI, facecolor=background)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        return encode(self, ".png")


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


def printable(text: str) -> str:
    """The text with the code points of letters that no font has, as short as it was meant to be."""
    shown = "".join(character if _has_glyph(character) else code_point(character) for character in text)
    return text if shown == text else shorten(shown, max(LABEL_CELLS, len(text)))


def colormap(*, dark: bool = False, differences: bool = False) -> Colormap:
    """The scale of ``colours`` for matplotlib: 256 samples of weights in 0..1, or 511 of differences in -1..1."""
    if differences:
        colours, name = difference_ramp(np.linspace(-1, 1, 511), dark=dark), "saccade-differences"
    else:
        colours, name = ramp(np.linspace(0, 1, 256), dark=dark), "saccade-weights"
    return ListedColormap(colours, name=f"{name}-dark" if dark else name)  # type: ignore[arg-type, unused-ignore]


def encode(figure: Figure, suffix: str) -> bytes:
    """The content of a picture file: the same figure always gives the same bytes."""
    content = io.BytesIO()
    with quiet(), _whole_text(figure if suffix == ".svg" else None):
        figure.savefig(content, format=suffix[1:], dpi=DPI, facecolor=figure.get_facecolor(), metadata=FORMATS[suffix])
    return content.getvalue()


def extent_of(figure: Figure) -> tuple[float, float, float, float]:
    """Left, bottom, right and top of what is drawn, in inches; of every text its longer form counts."""
    boxes = [figure.get_tightbbox()]
    if any(isinstance(text, Label) and text.whole != text.get_text() for text in figure.findobj(Label)):
        with _whole_text(figure):
            boxes.append(figure.get_tightbbox())
    union = Bbox.union(boxes)
    return float(union.x0), float(union.y0), float(union.x1), float(union.y1)


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
