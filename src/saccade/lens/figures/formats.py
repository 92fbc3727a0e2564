"""Save figures as PNG, SVG and PDF files; the same figure always gives the same bytes."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.errors import FileError
from saccade.lens.figures.canvas import DPI
from saccade.lens.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_suffix", "encode", "save"]

#: The file formats by suffix, with the metadata to leave out because it differs from run to run.
_FORMATS: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Save a figure as PNG, SVG or PDF, depending on the suffix of ``path``, and return the path."""
    path = Path(path)
    return write_file(path, encode(figure, check_suffix(path)), "picture")


def check_suffix(path: Path) -> str:
    """Return the suffix of ``path`` in lower case, or raise an error if figures cannot be saved in that format."""
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise FileError(
            f"{path}: a picture can be saved as {', '.join(_FORMATS)}, not as {suffix or 'a file without a suffix'}."
        )
    return suffix


def encode(figure: Figure, suffix: str) -> bytes:
    """Return the figure as the bytes of a file with this suffix: ``.png``, ``.svg`` or ``.pdf``."""
    from saccade.lens.figures.artists import fixed_settings, full_text

    content = io.BytesIO()
    with fixed_settings(), full_text(figure if suffix == ".svg" else None):
        figure.savefig(content, format=suffix[1:], dpi=DPI, facecolor=figure.get_facecolor(), metadata=_FORMATS[suffix])
    return content.getvalue()
