"""Images with a label each: idx files (MNIST and its kin), ``.npz``, a folder of pictures for each class.

All images of a set have one size and one number of channels; what does not fit is named by file and number. Sizes are
checked before anything is unpacked, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Shaped, UInt8

from saccade.data.lines import unreadable
from saccade.errors import FileError
from saccade.extras import needs_extra

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "IDX_IMAGES",
    "PICTURES",
    "LabelledImage",
    "Pixels",
    "describe_images",
    "describe_shape",
    "one_shape",
    "picture_files",
    "read_idx",
    "read_idx_array",
    "read_image_folder",
    "read_images",
    "read_npz",
    "read_npz_arrays",
    "read_picture",
]

Pixels = UInt8[np.ndarray, "H W C"]

#: The most bytes that a set takes in memory.
MOST_BYTES = 4 << 30
#: The most pixels along a side of an image.
LARGEST_SIDE = 4096
#: Files that are read as pictures, by their suffix.
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".pgm", ".ppm", ".tif", ".tiff")

_GZIP = b"\x1f\x8b"
#: How idx files begin: bytes in 3 dimensions, and in 1.
IDX_IMAGES, IDX_LABELS = 0x803, 0x801


@dataclass(frozen=True)
class LabelledImage:
    """An image, what it shows, and where it was found."""

    pixels: Pixels
    label: str
    line: int  # its number in the file, from 1
    where: str  # for people: "train.idx, image 7"

    @cached_property
    def source(self) -> str:
        """What two equal images share: one of them is never trained on while the other is scored."""
        return hashlib.blake2b(self.pixels.tobytes(), digest_size=16).hexdigest()


def read_images(images: Path, labels: Path | None = None) -> list[LabelledImage]:
    """A folder with a folder for each class, an ``.npz``, or a pair of idx files."""
    if images.is_dir():
        return read_image_folder(images)
    if images.suffix.lower() == ".npz":
        return read_npz(images)
    if labels is None:
        raise FileError(
            f"{images} has no labels: give a file of labels beside a file of idx images, an .npz with the arrays "
            "images and labels, or a folder with a folder of pictures for each class."
        )
    return read_idx(images, labels)


# --- idx ---------------------------------------------------------------------------------------------------


def read_idx(images: Path, labels: Path) -> list[LabelledImage]:
    """Two files as MNIST is published in: images and labels, each packed with gzip or not."""
    pixels, numbers = read_idx_array(images, IDX_IMAGES, "images"), read_idx_array(labels, IDX_LABELS, "labels")
    if len(pixels) != len(numbers):
        raise FileError(
            f"{images} has {len(pixels):,} images and {labels} has {len(numbers):,} labels; they must be equal."
        )
    return _labelled(pixels[..., None], [str(number) for number in numbers.tolist()], images)


def read_idx_array(path: Path, magic: int, what: str) -> UInt8[np.ndarray, "n ..."]:
    """The bytes of an idx file: a magic number that says the number of dimensions, their sizes, the values."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            with cast(IO[bytes], gzip.GzipFile(fileobj=raw) if packed else raw) as stream:
                return _idx_values(stream, path, magic, what)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{path} cannot be unpacked: {error}.") from None
    except OSError as error:
        raise unreadable(path, error) from error


def _idx_values(stream: IO[bytes], path: Path, magic: int, what: str) -> UInt8[np.ndarray, "n ..."]:
    dimensions = magic & 0xFF
    header = stream.read(4 + 4 * dimensions)
    found = int.from_bytes(header[:4], "big")
    if found != magic or len(header) < 4 + 4 * dimensions:
        raise FileError(f"{path} begins with the number {found}; a file of idx {what} begins with {magic}.")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    size = int(np.prod(shape, dtype=object))
    _check_size(path, size, max(shape[1:], default=1))
    values = stream.read(size + 1)
    if len(values) != size:
        said = "more" if len(values) > size else f"only {len(values):,}"
        raise FileError(f"{path} should hold {' × '.join(map(str, shape))} = {size:,} bytes of {what}; it has {said}.")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def _check_size(where: str | Path, size: int, side: int) -> None:
    if size > MOST_BYTES:
        raise FileError(f"{where} holds {size:,} bytes of images; at most {MOST_BYTES:,} are read.")
    if side > LARGEST_SIDE:
        raise FileError(f"{where} has an image of {side:,} pixels along a side; at most {LARGEST_SIDE:,} are read.")


# --- npz ---------------------------------------------------------------------------------------------------


def read_npz(path: Path, labels: str = "labels") -> list[LabelledImage]:
    """The arrays ``images``, (n, H, W) or (n, H, W, C), bytes or numbers in 0..1, and ``labels``, n of them."""
    pixels, texts = read_npz_arrays(path, labels)
    return _labelled(pixels, texts, path)


def read_npz_arrays(path: Path, labels: str | None) -> tuple[UInt8[np.ndarray, "n H W C"], list[str]]:
    """The images, and the labels or texts under this name; without a name, no labels are read."""
    try:
        with zipfile.ZipFile(path) as packed:
            _check_size(path, sum(entry.file_size for entry in packed.infolist()), 1)
        with np.load(path, allow_pickle=False) as arrays:
            wanted = ["images", *([] if labels is None else [labels])]
            for name in wanted:
                if name not in arrays:
                    raise FileError(f"{path} has no array {name!r}; it has: {', '.join(arrays) or 'none'}.")
            images = arrays["images"]
            values = None if labels is None else arrays[labels]
    except FileError:  # ours, and a ValueError: it says what is wrong already
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # NumPy and zipfile raise a dozen classes: of packing, encryption, headers, memory
        raise FileError(f"{path} is no .npz of plain arrays: {error}.") from None
    pixels = _as_bytes(images, path)
    if values is None:
        return pixels, []
    if values.ndim != 1 or len(values) != len(pixels):
        raise FileError(
            f"{path} has {len(pixels):,} images, and {labels} of shape {values.shape}; expected ({len(pixels)},)."
        )
    if values.dtype.kind not in "iubU":
        raise FileError(f"{path}: {labels} are of type {values.dtype}; expected whole numbers or text.")
    return pixels, [str(value) for value in values.tolist()]


def _as_bytes(images: Shaped[np.ndarray, ...], path: Path) -> UInt8[np.ndarray, "n H W C"]:
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:]:
        raise FileError(
            f"{path}: images have the shape {images.shape}; expected (n, H, W), (n, H, W, 1) or (n, H, W, 3)."
        )
    _check_size(path, images.size, max(images.shape[1:3]))
    if images.dtype == np.uint8:
        return np.asarray(images)
    if images.dtype.kind not in "fiu":
        raise FileError(f"{path}: images are of type {images.dtype}; expected bytes, or numbers in 0..1.")
    if images.size and not (np.isfinite(images).all() and images.min() >= 0 and images.max() <= 1):
        raise FileError(
            f"{path}: images have numbers from {images.min()} to {images.max()}; expected bytes (uint8), or numbers "
            "in 0..1."
        )
    return np.round(images.astype(np.float64) * 255).astype(np.uint8)


# --- pictures ----------------------------------------------------------------------------------------------


def read_image_folder(path: Path) -> list[LabelledImage]:
    """A folder of pictures for each class, whose name is the label; all of one size."""
    classes = sorted(entry for entry in _entries(path) if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise FileError(f"{path} holds no folders; expected a folder of pictures for each class.")
    found: list[LabelledImage] = []
    total = 0
    for folder in classes:
        for picture in picture_files(folder):
            pixels = read_picture(picture)
            total += pixels.nbytes
            _check_size(path, total, 1)
            found.append(LabelledImage(pixels, folder.name, len(found) + 1, str(picture)))
    return one_shape(found)


def picture_files(folder: Path) -> list[Path]:
    """The pictures of a folder, by name."""
    pictures = sorted(entry for entry in _entries(folder) if entry.suffix.lower() in PICTURES)
    if not pictures:
        raise FileError(f"{folder} holds no pictures; expected some of {', '.join(PICTURES)}.")
    return pictures


def one_shape(images: list[LabelledImage]) -> list[LabelledImage]:
    """The same images; one of another size than the first is refused."""
    for image in images:
        if image.pixels.shape != images[0].pixels.shape:
            raise FileError(
                f"{image.where} is {describe_shape(image.pixels.shape)}; expected "
                f"{describe_shape(images[0].pixels.shape)}, as {images[0].where} is: all images of a set have one size."
            )
    return images


def read_picture(path: Path) -> Pixels:
    """A picture file as grey (1 channel) or colour (3); what is transparent becomes black."""
    with needs_extra("images", "Reading a picture"):
        from PIL import Image, UnidentifiedImageError
    try:
        with Image.open(path) as picture:
            _check_size(path, 3 * picture.width * picture.height, max(picture.size))
            is_grey = picture.mode in ("1", "L", "LA", "I", "I;16", "F")
            if is_grey and picture.mode in ("I", "I;16", "F"):
                return _deep_grey(picture)
            pixels = np.asarray(picture.convert("L" if is_grey else "RGB"))
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise FileError(f"{path} is no picture that can be read: {error}.") from None
    except OSError as error:
        if error.errno is None:  # Pillow's own, of a file cut short
            raise FileError(f"{path} is no picture that can be read: {error}.") from None
        raise unreadable(path, error) from error
    return pixels[..., None] if is_grey else pixels


def _deep_grey(picture: Image.Image) -> Pixels:
    """More than 8 bits of grey, brought to 8."""
    values = np.asarray(picture).astype(np.float64)
    most = 65535.0 if values.max(initial=0) > 255 else 255.0
    return np.clip(values * 255 / most, 0, 255).astype(np.uint8)[..., None]


def _entries(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as error:
        raise unreadable(path, error) from error


# --- all of them -------------------------------------------------------------------------------------------


def _labelled(pixels: UInt8[np.ndarray, "n H W C"], labels: Sequence[str], path: Path) -> list[LabelledImage]:
    if not len(pixels):
        raise FileError(f"There is no image in {path}.")
    return [
        LabelledImage(image, label, number, f"{path}, image {number}")
        for number, (image, label) in enumerate(zip(pixels, labels, strict=True), start=1)
    ]


def describe_shape(shape: tuple[int, ...]) -> str:
    """For people: 28×28 pixels, grey."""
    height, width, channels = shape
    return f"{height}×{width} pixels, {'grey' if channels == 1 else 'in colour'}"


def describe_images(images: Sequence[LabelledImage], files: str, what: str) -> list[tuple[str, str]]:
    """What was found, as (what, value) rows of a table."""
    labels: dict[str, int] = {}
    for image in images:
        labels[image.label] = labels.get(image.label, 0) + 1
    fewest, most = min(labels.values()), max(labels.values())
    equal = len({image.source for image in images})
    return [
        (f"{what} files", files),
        (f"{what} images", f"{len(images):,}, {describe_shape(images[0].pixels.shape)}"),
        (f"{what} classes", f"{len(labels):,}, of {fewest:,} to {most:,} images each"),
        (f"{what} duplicates", f"{len(images) - equal:,} kept" if equal < len(images) else "none"),
    ]
