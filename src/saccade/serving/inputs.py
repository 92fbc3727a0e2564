"""What a request gives a model, checked: a text, or an image. Never the name of a file."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from PIL import Image, UnidentifiedImageError

from saccade.data.images import Pixels
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits
from saccade.serving.models import Served
from saccade.tasks.base.image_input import GivenImage, ImageInputPredictor
from saccade.text import Tokenizer

__all__ = ["count_tokens", "read_input", "read_inputs", "read_text"]

#: Pixels along a side of a picture that is sent; it is made as small as the model's images.
MOST_SIDE = 4096
#: Pixels of all pictures of one request: a file of few bytes can hold many.
MOST_PIXELS = 4 * MOST_SIDE**2


def read_inputs(served: Served, given: Sequence[Any], limits: Limits) -> list[Any]:
    """The inputs of one request."""
    if not given:
        raise Refused(400, "There is no input; give at least one.")
    if len(given) > limits.texts:
        raise Refused(413, f"There are {len(given)} inputs; {limits.texts} are taken at once.")
    if served.predictor.takes_images and sum(map(_pixels, given)) > MOST_PIXELS:
        raise Refused(413, f"The pictures have more than {MOST_PIXELS:,} pixels, which are taken at once.")
    return [read_input(served, one, limits) for one in given]


def read_input(served: Served, given: Any, limits: Limits) -> Any:
    """One input, as the model's ``predict`` takes it."""
    if served.predictor.takes_images:
        return _image(served, given)
    return read_text(served, given, limits.characters, limits.tokens)


def read_text(served: Served, given: Any, characters: int, tokens: int) -> str:
    if not isinstance(given, str):
        raise Refused(400, f"The model {served.name} takes a text; not {_kind(given)}.")
    if len(given) > characters:
        raise Refused(413, f"The text has {len(given):,} characters; {characters:,} are taken.")
    found = count_tokens(served, given)
    if found > tokens:
        raise Refused(413, f"The text has {found:,} tokens; {tokens:,} are taken.")
    return given


def count_tokens(served: Served, text: str) -> int:
    """How many tokens the model reads, where it has a tokenizer of its own for texts; else the words."""
    known = served.predictor.task.state.vocabularies()
    tokenizer = known.get("source") or known.get("tokenizer")
    return len(tokenizer.encode_ids([text])[0]) if isinstance(tokenizer, Tokenizer) else len(text.split())


# --- images ---


def _image(served: Served, given: Any) -> GivenImage:
    """``{"pixels": rows}`` of numbers in 0..1, ``{"png": base64}``, or ``{"sample": number}`` of the model's data."""
    predictor = cast(ImageInputPredictor, served.predictor)
    if not isinstance(given, dict) or len(given) != 1 or not given.keys() <= {"pixels", "png", "sample"}:
        raise Refused(
            400, f'The model {served.name} takes an image: {{"pixels"}}, {{"png"}} or {{"sample"}}; not {_kind(given)}.'
        )
    ((form, value),) = given.items()
    if form == "sample":
        return GivenImage(_sample(served, value), f"sample {value}")
    picture = _picture(_decoded(value)) if form == "png" else _drawn(value)
    return GivenImage(_fitted(picture, predictor.shape), "the image")


def _sample(served: Served, number: Any) -> Pixels:
    samples = served.samples
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(samples):
        raise Refused(400, f"The samples of {served.name} are counted from 1 to {len(samples)}; not {_kind(number)}.")
    return samples[number - 1]


def _decoded(value: Any) -> bytes:
    if not isinstance(value, str):
        raise Refused(400, f"A png is a string in base64; not {_kind(value)}.")
    try:
        return base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise Refused(400, "The png is not in base64.") from None


def _pixels(given: Any) -> int:
    """How many the head of a picture promises; 0 where nothing is to be decoded."""
    if not isinstance(given, dict) or "png" not in given:
        return 0
    width, height = _opened(_decoded(given["png"])).size
    return width * height


def _opened(content: bytes) -> Image.Image:
    """A picture of which the head was read."""
    try:
        picture = Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise Refused(400, "The picture cannot be read; it is a PNG or JPEG file in base64.") from error
    if max(picture.size) > MOST_SIDE:
        raise Refused(413, f"A side of the picture has {max(picture.size)} pixels; at most {MOST_SIDE} are taken.")
    return picture


def _picture(content: bytes) -> Image.Image:
    try:
        return _opened(content).convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise Refused(400, "The picture cannot be read; it is a PNG or JPEG file in base64.") from error


def _drawn(value: Any) -> Image.Image:
    """Rows of grey from 0, black, to 1."""
    rows = value if isinstance(value, list) else []
    width = len(rows[0]) if rows and isinstance(rows[0], list) else 0
    if (
        not 0 < len(rows) <= MOST_SIDE
        or not 0 < width <= MOST_SIDE
        or any(not isinstance(row, list) or len(row) != width for row in rows)
    ):
        raise Refused(400, f"pixels is a list of rows of one length, at most {MOST_SIDE}, each a list of numbers.")
    if any(type(one) not in (int, float) or not 0 <= one <= 1 for row in rows for one in row):
        raise Refused(400, "pixels holds numbers from 0, black, to 1.")
    return Image.fromarray(np.round(np.array(rows) * 255).astype(np.uint8))


def _fitted(picture: Image.Image, shape: tuple[int, int, int]) -> Pixels:
    """As large as the model's images, with as many channels."""
    height, width, channels = shape
    picture = picture.convert("L" if channels == 1 else "RGB")
    if picture.size != (width, height):
        picture = picture.resize((width, height), Image.Resampling.BOX)
    pixels = np.asarray(picture)
    return pixels[..., None] if channels == 1 else pixels


def _kind(given: Any) -> str:
    shown = repr(given)
    return shown if len(shown) <= 40 else f"{type(given).__name__} {shown[:30]}..."
