"""Images as input: pictures, and numbered images in idx and .npz files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from saccade.data.digits import read_digits
from saccade.data.images import (
    IDX_IMAGES,
    PICTURES,
    Pixels,
    describe_shape,
    picture_files,
    read_idx_array,
    read_npz_arrays,
    read_picture,
)
from saccade.data.inputs import read_texts
from saccade.data.paths import resolve_path
from saccade.data.pictures import MOST_SIDE, count_pixels, decode_picture, fit_picture, picture_of_rows
from saccade.errors import FileError, OptionError, SaccadeError, TooLargeError
from saccade.models import VisionConfig
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.registry import task_named

__all__ = ["GivenImage", "ImageInputPredictor", "describe_image", "drawable_pixels"]

#: How many tokens an image counts as when the cost of an answer is estimated: roughly its number of patches.
TOKENS = 256
#: How many images of the model's own data the page offers.
SAMPLES = 24
#: The most pixels that all pictures of one request may have together.
MOST_PIXELS = 4 * MOST_SIDE**2
_BUILTIN = "digits"
_NUMBERED = re.compile(r"(?P<file>.+):(?P<number>\d+)")


@dataclass(frozen=True)
class GivenImage:
    """An input image, and its name for error messages."""

    pixels: Pixels
    where: str


class ImageInputPredictor(Predictor):
    """A predictor whose inputs are images: pictures, and numbered images in idx and .npz files."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images that the model takes."""
        shape: tuple[int, int, int] = self.task.state.shape
        return shape

    def parse(self, given: str) -> GivenImage:
        """Read ``picture.png``, or a numbered image of a larger file, counting from 1: ``images.npz:17``,
        ``t10k-images-idx3-ubyte.gz:17``, ``digits:17``."""
        numbered = _NUMBERED.fullmatch(given)
        path = resolve_path(given)
        if path.suffix.lower() in PICTURES and (numbered is None or path.exists()):
            return self._checked(GivenImage(read_picture(path), given))
        if numbered is None:
            raise FileError(
                f"{given} is not a picture ({', '.join(PICTURES)}); to choose one image of a larger file, add its "
                f"number, as in {given}:1."
            )
        every = self._many(numbered["file"])
        number = int(numbered["number"])
        if not 1 <= number <= len(every):
            raise OptionError(f"{given}: the number must be from 1 to {len(every):,}.")
        return self._checked(GivenImage(every[number - 1], given))

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """A picture, all pictures of a folder, or all images of an idx or .npz file."""
        if path.is_dir():
            found = [GivenImage(read_picture(one), str(one)) for one in picture_files(path)]
        elif path.suffix.lower() in PICTURES:
            found = [self.parse(str(path))]
        else:
            found = [GivenImage(image, f"{path}:{number}") for number, image in enumerate(self._many(str(path)), 1)]
        return [self._checked(one) for one in found], "images"

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        return [self.parse(name) for name in read_texts(path)[0]], "one image name per line"

    # --- in JSON ---

    def from_json(self, value: Any) -> GivenImage:
        """``{"pixels": rows}`` of numbers in 0..1, ``{"png": base64}``, or ``{"sample": number}`` from its own data."""
        if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"pixels", "png", "sample"}:
            raise OptionError(
                f'This model takes an image as {{"pixels"}}, {{"png"}} or {{"sample"}}, not {_shown(value)}.'
            )
        ((form, content),) = value.items()
        if form != "sample":
            picture = decode_picture(content) if form == "png" else picture_of_rows(content)
            return GivenImage(fit_picture(picture, self.shape), "the image")
        count = len(self.samples)
        if not isinstance(content, int) or isinstance(content, bool) or not 1 <= content <= count:
            raise OptionError(f"The sample must be a number from 1 to {count}, not {_shown(content)}.")
        return GivenImage(self.samples[content - 1], f"sample {content}")

    def input_schema(self) -> dict[str, Any]:
        rows = {"type": "array", "items": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}}}
        forms = {"pixels": rows, "png": {"type": "string", "contentEncoding": "base64"}, "sample": {"type": "integer"}}
        return {"type": "object", "properties": forms, "minProperties": 1, "maxProperties": 1}

    def describe_input(self) -> dict[str, Any]:
        height, width, channels = self.shape
        return {"kind": "image", "height": height, "width": width, "channels": channels}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        return [{"sample": number} for number in range(1, len(self.samples) + 1)]

    @cached_property
    def samples(self) -> list[Pixels]:
        """The first images that the model was not trained on; empty if its data is not available."""
        reader = task_named(self.task.name).data
        try:
            splits = reader.read(reader.settings.read(dict(self.bundle.data), "the recipe"), seed=1)
        except (SaccadeError, KeyError, OSError):
            return []
        images = (splits.test or splits.validation)[:SAMPLES]
        return [one.pixels for one in images if one.pixels.shape == self.shape]

    def count_tokens(self, given: Any) -> int:
        return TOKENS

    def check_request(self, values: Sequence[Any]) -> None:
        """Limit the pixels, because a small file can hold many of them."""
        pictures = [value["png"] for value in values if isinstance(value, dict) and "png" in value]
        if sum(map(count_pixels, pictures)) > MOST_PIXELS:
            raise TooLargeError(f"The pictures of one request have more than {MOST_PIXELS:,} pixels; send fewer.")

    # --- in Python ---

    def given(self, one: Any) -> GivenImage:
        """An input of ``predict``: a ``GivenImage``, the name of a file, or a uint8 array (H, W) or (H, W, C)."""
        if isinstance(one, GivenImage):
            return one
        if isinstance(one, np.ndarray):
            if one.dtype != np.uint8:
                raise OptionError(f"An image must be an array of uint8, not {one.dtype}.")
            return self._checked(GivenImage(one[..., None] if one.ndim == 2 else one, "the image"))
        return self.parse(str(one))

    def _checked(self, image: GivenImage) -> GivenImage:
        if image.pixels.ndim != 3:
            raise OptionError(f"An image must have the shape (H, W), (H, W, 1) or (H, W, 3), not {image.pixels.shape}.")
        if image.pixels.shape != self.shape:
            expected = describe_shape(self.shape)
            raise FileError(f"{image.where} is {describe_shape(image.pixels.shape)}; this model takes {expected}.")
        return image

    def _many(self, file: str) -> Sequence[Pixels]:
        if file == _BUILTIN:
            return self._builtin()
        path = resolve_path(file)
        if path.suffix.lower() == ".npz":
            return list(read_npz_arrays(path, None)[0])
        return list(read_idx_array(path, IDX_IMAGES, "images")[..., None])

    def _builtin(self) -> Sequence[Pixels]:
        """The built-in images that ``digits:1`` refers to."""
        return [image.pixels for image in read_digits()]


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{type(value).__name__} {shown[:30]}..."


def describe_image(pixels: Pixels, patches: VisionConfig | None) -> dict[str, Any]:
    """An image for the page, and the grid of its patches."""
    height, width, channels = pixels.shape
    return {
        "height": height,
        "width": width,
        "channels": channels,
        "pixels": drawable_pixels(pixels).tolist(),
        "grid": [1, 1] if patches is None else list(patches.grid),
        "class_token": patches is not None and patches.pooling == "class",
    }


def drawable_pixels(pixels: Pixels) -> Any:
    """The pixels as drawing functions take them: (H, W) if there is only one channel."""
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels
