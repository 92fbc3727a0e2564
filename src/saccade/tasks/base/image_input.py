"""Images as input: pictures, and images of idx and .npz files by their number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
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
from saccade.data.paths import resolve_path
from saccade.errors import FileError, OptionError
from saccade.models import VisionConfig
from saccade.tasks.base.predictor import Predictor

__all__ = ["GivenImage", "ImageInputPredictor", "shown_pixels"]

_BUILTIN = "digits"
_NUMBERED = re.compile(r"(?P<file>.+):(?P<number>\d+)")


@dataclass(frozen=True)
class GivenImage:
    """An image that a model is asked about, and what it is called."""

    pixels: Pixels
    where: str


class ImageInputPredictor(Predictor):
    """What all models that look at images take: pictures, and images of idx and .npz files by their number."""

    @property
    def takes_images(self) -> bool:
        return True

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images that the model takes."""
        shape: tuple[int, int, int] = self.task.state.shape
        return shape

    @property
    def patches(self) -> VisionConfig | None:
        """How the model cuts an image into patches; None where it does not."""
        config = self.model.config
        return config if isinstance(config, VisionConfig) else None

    def parse(self, given: str) -> GivenImage:
        """``picture.png``, or one of many: ``images.npz:17``, ``t10k-images-idx3-ubyte.gz:17``, ``digits:17``,
        counted from 1."""
        numbered = _NUMBERED.fullmatch(given)
        path = resolve_path(given)
        if path.suffix.lower() in PICTURES and (numbered is None or path.exists()):
            return self._checked(GivenImage(read_picture(path), given))
        if numbered is None:
            raise FileError(
                f"{given} is no picture ({', '.join(PICTURES)}); an image of a file of many is asked for by its "
                f"number, as {given}:1."
            )
        every = self._many(numbered["file"])
        number = int(numbered["number"])
        if not 1 <= number <= len(every):
            raise OptionError(f"{given}: there are {len(every):,} images, counted from 1.")
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

    def replaced(self, given: Any, old: str, new: str) -> Any:
        raise OptionError("An image has no words to replace; switch heads off or forbid links.")

    def given(self, one: Any) -> GivenImage:
        """An input of ``predict``: an image that was read, the name of one, or bytes (H, W) or (H, W, C)."""
        if isinstance(one, GivenImage):
            return one
        if isinstance(one, np.ndarray):
            if one.dtype != np.uint8:
                raise OptionError(f"An image is an array of bytes (uint8); not of {one.dtype}.")
            return self._checked(GivenImage(one[..., None] if one.ndim == 2 else one, "the image"))
        return self.parse(str(one))

    def _checked(self, image: GivenImage) -> GivenImage:
        if image.pixels.ndim != 3:
            raise OptionError(f"An image has the shape (H, W), (H, W, 1) or (H, W, 3); not {image.pixels.shape}.")
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
        """The images that ``digits:1`` counts."""
        return [image.pixels for image in read_digits()]


def shown_pixels(pixels: Pixels) -> Any:
    """As pictures take them: (H, W) where there is one channel."""
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels
