"""Decode pictures that are sent in a request: PNG or JPEG in base64, or rows of grey values."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from saccade.data.images import RESIZED, Fitting, Pixels, with_8_bits
from saccade.errors import OptionError, TooLargeError

__all__ = ["MOST_SIDE", "count_pixels", "decode_picture", "fit_picture", "picture_of_rows"]

#: The maximum height and width of a picture in pixels, before it is resized to the size that the model takes.
MOST_SIDE = 4096
_UNREADABLE = (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError)
_NOT_READ = "The picture cannot be read; send a PNG or JPEG file in base64."


def count_pixels(encoded: Any) -> int:
    """Return the number of pixels according to the header of a picture, without decoding it."""
    width, height = _opened(encoded).size
    return width * height


def decode_picture(encoded: Any) -> Image.Image:
    """Return the picture, grey or in colour, in a PNG or JPEG file that is encoded in base64."""
    try:
        return with_8_bits(_opened(encoded))
    except _UNREADABLE as error:
        raise error if isinstance(error, OptionError) else OptionError(_NOT_READ) from error


def picture_of_rows(rows: Any) -> Image.Image:
    """Convert rows of grey values, from 0 (black) to 1 (white), to a picture."""
    width = len(rows[0]) if isinstance(rows, list) and rows and isinstance(rows[0], list) else 0
    if (
        not 0 < width <= MOST_SIDE
        or len(rows) > MOST_SIDE
        or any(not isinstance(row, list) or len(row) != width for row in rows)
    ):
        raise OptionError(
            f"pixels must be a list of at most {MOST_SIDE} rows, each a list of at most {MOST_SIDE} numbers, all of "
            "the same length."
        )
    if any(type(one) not in (int, float) or not 0 <= one <= 1 for row in rows for one in row):
        raise OptionError("pixels must be numbers from 0 (black) to 1 (white).")
    return Image.fromarray(np.round(np.array(rows) * 255).astype(np.uint8))


def fit_picture(picture: Image.Image, shape: tuple[int, int, int], fitting: Fitting = RESIZED) -> Pixels:
    """Convert a picture to pixels with the size and number of channels that the model takes."""
    height, width, channels = shape
    picture = picture.convert("L" if channels == 1 else "RGB")
    resized = fitting.cut_from or (height, width)
    if isinstance(resized, int):  # the shorter side; the longer one keeps its proportion
        share = resized / min(picture.size)
        resized = (int(picture.height * share), int(picture.width * share))
    if picture.size != resized[::-1]:
        picture = picture.resize(resized[::-1], Image.Resampling[fitting.filter.upper()])
    if fitting.cut_from is not None:  # cut out the middle; areas outside the picture become black
        left, top = (picture.width - width) // 2, (picture.height - height) // 2
        picture = picture.crop((left, top, left + width, top + height))
    pixels = np.asarray(picture)
    return pixels[..., None] if channels == 1 else pixels


def _opened(encoded: Any) -> Image.Image:
    """Open a picture, reading only its header."""
    if not isinstance(encoded, str):
        raise OptionError(f"png must be a string in base64, not {type(encoded).__name__}.")
    try:
        content = base64.b64decode(encoded.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise OptionError("png is not valid base64.") from None
    # Image.open would write a warning about large pictures to the log, and call the largest ones unreadable.
    reader = PngImageFile if content.startswith(b"\x89PNG") else JpegImageFile
    try:
        picture = reader(io.BytesIO(content))
    except _UNREADABLE as error:
        raise OptionError(_NOT_READ) from error
    if max(picture.size) > MOST_SIDE:
        raise TooLargeError(f"The picture has {max(picture.size)} pixels along one side; the limit is {MOST_SIDE}.")
    return picture
