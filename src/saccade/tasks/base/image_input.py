"""Image inputs for predictors: picture files, numbered images in idx and .npz files, and images sent as JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from saccade.data.digits import read_digits
from saccade.data.images import (
    IDX_IMAGES,
    Fitting,
    Pixels,
    describe_shape,
    image_suffix,
    picture_shape,
    read_idx_array,
    read_npz_arrays,
    read_picture,
)
from saccade.data.inputs import read_texts
from saccade.data.paths import resolve_path
from saccade.data.picture_folders import PICTURES, note_left_out, pictures_within
from saccade.data.pictures import MOST_SIDE, count_pixels, decode_picture, fit_picture, picture_of_rows
from saccade.errors import FileError, OptionError, SaccadeError, TooLargeError, counted, shortened
from saccade.models import VisionConfig
from saccade.tasks.base.image_task import check_shape
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.registry import task_named

__all__ = ["ImageInputPredictor", "InputImage", "describe_image", "drawable_pixels"]

#: The number of tokens that an image counts as when the cost of an answer is estimated: roughly its number of patches.
TOKENS = 256
#: The number of sample images from the model's own data that the web page offers.
SAMPLES = 24
#: The maximum number of pixels in all pictures of one request together.
MOST_PIXELS = 4 * MOST_SIDE**2
#: The maximum size in bytes, after decompression, of the images in a file that is sent to the server.
MOST_SENT = 16 << 20
_NUMBERED = re.compile(r"(?P<file>.+):(?P<number>\d+)")


@dataclass(frozen=True)
class InputImage:
    """An input image, and the name that error messages give it."""

    pixels: Pixels
    where: str


class ImageInputPredictor(Predictor):
    """A predictor whose inputs are images."""

    input_types = (InputImage, np.ndarray, str, Path)
    input_name = "the name of an image file or an array of uint8"

    @property
    def shape(self) -> tuple[int, int, int]:
        """The height, width and number of channels of the images that the model takes."""
        shape: tuple[int, int, int] = self.task.state.shape
        return shape

    @property
    def fitting(self) -> Fitting:
        """How pictures of another size are fitted to ``shape``: in the same way as in training."""
        how = self.read_as
        cut = how.get("cut_from")
        return Fitting(how.get("filter", "box"), tuple(cut) if isinstance(cut, list) else cut)

    def read_otherwise(
        self,
        columns: str | None = None,
        encoding: str | None = None,
        lines: bool = False,
        separator: str | None = None,
    ) -> None:
        """Raise an error if any of these options is given, because the inputs are images, not texts or tables."""
        if lines or (columns, encoding, separator) != (None, None, None):
            raise OptionError(
                f"--columns, --encoding, --lines and --separator do not apply to {self.plural}, because their inputs "
                "are images."
            )

    def parse(self, given: str) -> InputImage:
        """Read a picture (``cat.png``), or one image of a larger file by its number, counting from 1
        (``images.npz:17``, ``t10k-images-idx3-ubyte.gz:17`` or ``digits:17``)."""
        numbered = _NUMBERED.fullmatch(given)
        path = resolve_path(given)
        if path.suffix.lower() in PICTURES and (numbered is None or path.exists()):
            return InputImage(read_picture(path, self.shape, self.fitting), given)
        if numbered is None and not path.exists():
            raise FileError(
                f"There is no file {given!r}; give a picture ({', '.join(PICTURES)}), or one image of a "
                "larger file by its "
                "number, such as images.npz:1."
            )
        if numbered is None:
            raise FileError(
                f"{given} is not a picture ({', '.join(PICTURES)}); to choose one image from a larger file, add its "
                f"number, as in {given}:1."
            )
        every = self._read_all(numbered["file"])
        number = int(numbered["number"])
        if not 1 <= number <= len(every):
            raise OptionError(f"{given}: the number must be from 1 to {len(every):,}.")
        return self._check_shape(InputImage(every[number - 1], given))

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """Read one picture; all pictures in a folder or, as in training, in its subfolders (one for each class); or all
        images in an idx or .npz file."""
        if not path.is_dir() and path.suffix.lower() not in PICTURES:
            found = [InputImage(image, f"{path}:{number}") for number, image in enumerate(self._read_all(str(path)), 1)]
            return [self._check_shape(one) for one in found], "images"
        files = pictures_within(path) if path.is_dir() else [path]
        found, said = self.read_pictures(files)
        if path.is_dir() and files[0].parent != path:
            said += f"; they are in {counted(len({file.parent for file in files}), 'folder')}, whose names are not used"
        return found, "; ".join([said, *(note_left_out(path, files) if path.is_dir() else [])])

    def read_pictures(self, files: Sequence[Path]) -> tuple[list[Any], str]:
        """Read picture files, and return them with a phrase that says how."""
        others = sum(picture_shape(file) != self.shape for file in files)
        said = f"{others:,} fitted to {describe_shape(self.shape)}" if others else "as they are"
        found = [InputImage(read_picture(file, self.shape, self.fitting), str(file)) for file in files]
        return found, f"pictures, {said}"

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        """Read a picture or a file of images, recognised by how it begins; otherwise, one image name per line."""
        kind = image_suffix(path)
        if kind is None:
            return [self.parse(name) for name in read_texts(path)[0]], "one image name per line"
        found, how = self.read_file(path.rename(path.with_suffix(kind)))
        return [replace(image, where=f"image {number}") for number, image in enumerate(found, start=1)], how

    def read_bytes(self, content: bytes) -> tuple[list[Any], str]:
        return self.read_stream(BytesIO(content), "The file", self._read_sent)

    def _read_sent(self, path: Path) -> tuple[list[Any], str]:
        """Read a PNG or JPEG picture, or the images in an idx or .npz file. Other formats have more dangerous
        decoders, and names of files are refused: a client could ask for any file of the server."""
        kind = image_suffix(path)
        if kind is None:
            raise FileError(
                "The file must be a picture (PNG or JPEG), or an idx or .npz file of images. The server never opens "
                "files that a request names, so it reads no lists or tables of pictures: send the pictures themselves."
            )
        if kind == ".npz":
            images = read_npz_arrays(path, None, MOST_SENT)[0]
        elif kind == ".idx":
            images = read_idx_array(path, IDX_IMAGES, "images", MOST_SENT)[..., None]
        elif kind in (".png", ".jpg"):
            value = {"png": base64.b64encode(path.read_bytes()).decode()}
            self.check_request([value])
            return [self.from_json(value)], "one picture"
        else:
            raise FileError(f"Pictures in a request must be PNG or JPEG files; this is a {kind} file.")
        if len(images):  # all have the same shape
            check_shape(images[0], self.shape, "image 1")
        return [InputImage(image, f"image {number}") for number, image in enumerate(images, start=1)], "images"

    # --- images in JSON requests ---

    def from_json(self, value: Any) -> InputImage:
        """Read ``{"pixels": rows}`` (numbers from 0 to 1), ``{"png": base64}``, or ``{"sample": number}``, which is an
        image from the model's own data."""
        if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"pixels", "png", "sample"}:
            raise OptionError(
                'This model takes an image as {"pixels": rows of numbers}, {"png": base64 text} or {"sample": number}, '
                f"not {shortened(value, 40)}."
            )
        ((form, content),) = value.items()
        if form != "sample":
            picture = decode_picture(content) if form == "png" else picture_of_rows(content)
            return InputImage(fit_picture(picture, self.shape, self.fitting), "the image")
        count = len(self.samples)
        if not isinstance(content, int) or isinstance(content, bool) or not 1 <= content <= count:
            raise OptionError(f"The sample must be a whole number from 1 to {count}, not {shortened(content, 40)}.")
        return InputImage(self.samples[content - 1], f"sample {content}")

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
        """A few images that the model was not trained on; empty if its data files are not available."""
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
        """Raise an error if the pictures have too many pixels in total; a small file can contain a huge picture."""
        pictures = [value["png"] for value in values if isinstance(value, dict) and "png" in value]
        if sum(map(count_pixels, pictures)) > MOST_PIXELS:
            raise TooLargeError(
                f"The pictures in one request may have at most {MOST_PIXELS:,} pixels in total; send fewer or smaller "
                "pictures."
            )

    # --- images in Python ---

    def prepare(self, given: Any, number: int = 1) -> InputImage:
        """Return an input (a file name, a uint8 array (H, W) or (H, W, C), or an image) as an ``InputImage``."""
        if isinstance(given, InputImage):
            return given
        if isinstance(given, np.ndarray):
            if given.dtype != np.uint8:
                raise OptionError(f"An image must be an array of uint8, not {given.dtype}.")
            return self._check_shape(InputImage(given[..., None] if given.ndim == 2 else given, "the image"))
        return self.parse(str(given))

    def _check_shape(self, image: InputImage) -> InputImage:
        if image.pixels.ndim != 3:
            raise OptionError(f"An image must have the shape (H, W), (H, W, 1) or (H, W, 3), not {image.pixels.shape}.")
        check_shape(image.pixels, self.shape, image.where)
        return image

    def _read_all(self, file: str) -> Sequence[Pixels]:
        if file == "digits":
            return self.builtin_images()
        path = resolve_path(file)
        if path.suffix.lower() == ".npz":
            return list(read_npz_arrays(path, None)[0])
        return list(read_idx_array(path, IDX_IMAGES, "images")[..., None])

    def builtin_images(self) -> Sequence[Pixels]:
        """Return the built-in images, which ``digits:1`` and so on refer to."""
        return [image.pixels for image in read_digits()]


def describe_image(pixels: Pixels, patches: VisionConfig | None) -> dict[str, Any]:
    """Return what the web page needs to draw an image and the grid of its patches."""
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
    """Return the pixels in the shape that drawing functions expect: (H, W) if there is only one channel."""
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels
