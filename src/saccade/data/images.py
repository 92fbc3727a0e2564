"""Read labelled images: idx files (as for MNIST), ``.npz`` files, or one folder of pictures per class.

All images must have the same size and number of channels; the error for an image that differs names it. Sizes are
checked before anything is decompressed, so that a small file cannot exhaust memory.
"""

from __future__ import annotations

import hashlib
import struct
import zipfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Shaped, UInt8

from saccade.data.lines import reading, unreadable
from saccade.errors import FileError
from saccade.extras import needs_extra

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
    "unseen_classes",
]

Pixels = UInt8[np.ndarray, "H W C"]

#: The maximum size of all images in memory, in bytes.
MOST_BYTES = 4 << 30
#: The maximum height and width of an image, in pixels.
LARGEST_SIDE = 4096
#: The suffixes of files that are read as pictures.
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".pgm", ".ppm", ".tif", ".tiff")

#: The magic numbers of idx files with bytes in three dimensions, and in one.
IDX_IMAGES, IDX_LABELS = 0x803, 0x801


@dataclass(frozen=True)
class LabelledImage:
    """An image, its label, and where it was found."""

    pixels: Pixels
    label: str
    line: int  # its number in the file, counting from 1
    where: str  # its place in words, such as "train.idx, image 7"

    @cached_property
    def source(self) -> str:
        """The key by which images are split. Two equal images have the same key, and so go to the same part."""
        return hashlib.blake2b(self.pixels.tobytes(), digest_size=16).hexdigest()


def read_images(images: Path, labels: Path | None = None) -> list[LabelledImage]:
    """Read a folder with one subfolder per class, an ``.npz`` file, or a pair of idx files."""
    if images.is_dir():
        return read_image_folder(images)
    if images.suffix.lower() == ".npz":
        return read_npz(images)
    if labels is None:
        raise FileError(
            f"{images} has no labels; give an idx file of images and one of labels, an .npz file with the arrays "
            "images and labels, or a folder with one subfolder of pictures per class."
        )
    return read_idx(images, labels)


# --- idx ---------------------------------------------------------------------------------------------------


def read_idx(images: Path, labels: Path) -> list[LabelledImage]:
    """Read images and labels from two files in the format of MNIST, which may be compressed with gzip."""
    pixels, numbers = read_idx_array(images, IDX_IMAGES, "images"), read_idx_array(labels, IDX_LABELS, "labels")
    if len(pixels) != len(numbers):
        raise FileError(
            f"{images} has {len(pixels):,} images, but {labels} has {len(numbers):,} labels; there must be one label "
            "for each image."
        )
    return _labelled(pixels[..., None], [str(number) for number in numbers.tolist()], images)


def read_idx_array(path: Path, magic: int, what: str) -> UInt8[np.ndarray, "n ..."]:
    """Read the values in an idx file. They come after a magic number and the sizes of the dimensions."""
    with reading(path) as stream:
        return _idx_values(stream, path, magic, what)


def _idx_values(stream: IO[bytes], path: Path, magic: int, what: str) -> UInt8[np.ndarray, "n ..."]:
    dimensions = magic & 0xFF
    header = stream.read(4 + 4 * dimensions)
    found = int.from_bytes(header[:4], "big")
    if found != magic or len(header) < 4 + 4 * dimensions:
        raise FileError(f"{path} starts with the number {found}; an idx file of {what} starts with {magic}.")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    size = int(np.prod(shape, dtype=object))
    _check_size(path, size, max(shape[1:], default=1))
    values = stream.read(size + 1)
    if len(values) != size:
        found_size = "more" if len(values) > size else f"only {len(values):,}"
        sizes = " × ".join(map(str, shape))
        raise FileError(f"{path} should have {sizes} = {size:,} bytes of {what}; it has {found_size}.")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def _check_size(where: str | Path, size: int, side: int) -> None:
    if size > MOST_BYTES:
        raise FileError(f"{where} has {size:,} bytes of images; the limit is {MOST_BYTES:,}.")
    if side > LARGEST_SIDE:
        raise FileError(f"{where} has an image of {side:,} pixels along one side; the limit is {LARGEST_SIDE:,}.")


# --- npz ---------------------------------------------------------------------------------------------------


def read_npz(path: Path, labels: str = "labels") -> list[LabelledImage]:
    """Read the array ``images``, (n, H, W) or (n, H, W, C), of bytes or numbers from 0 to 1, and ``labels``, (n,)."""
    pixels, texts = read_npz_arrays(path, labels)
    return _labelled(pixels, texts, path)


def read_npz_arrays(path: Path, labels: str | None) -> tuple[UInt8[np.ndarray, "n H W C"], list[str]]:
    """Read the images, and the labels or texts in the array named ``labels``, if it is given."""
    try:
        with zipfile.ZipFile(path) as packed:
            _check_size(path, sum(entry.file_size for entry in packed.infolist()), 1)
        with np.load(path, allow_pickle=False) as arrays:
            for name in ["images", *([] if labels is None else [labels])]:
                if name not in arrays:
                    raise FileError(f"{path} has no array {name!r}; it has: {', '.join(arrays) or 'none'}.")
            images = arrays["images"]
            values = None if labels is None else arrays[labels]
    except FileError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # NumPy and zipfile raise many classes of errors
        raise FileError(f"{path} is not an .npz file of plain arrays: {error}.") from None
    pixels = _as_bytes(images, path)
    if values is None:
        return pixels, []
    if values.ndim != 1 or len(values) != len(pixels):
        raise FileError(
            f"{path} has {len(pixels):,} images, but {labels} has shape {values.shape}; expected ({len(pixels)},)."
        )
    if values.dtype.kind not in "iubU":
        raise FileError(f"{path}: {labels} has type {values.dtype}; expected whole numbers or text.")
    return pixels, [str(value) for value in values.tolist()]


def _as_bytes(images: Shaped[np.ndarray, ...], path: Path) -> UInt8[np.ndarray, "n H W C"]:
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:]:
        raise FileError(f"{path}: images has shape {images.shape}; expected (n, H, W), (n, H, W, 1) or (n, H, W, 3).")
    _check_size(path, images.size, max(images.shape[1:3]))
    if images.dtype == np.uint8:
        return np.asarray(images)
    if images.dtype.kind not in "fiu":
        raise FileError(f"{path}: images has type {images.dtype}; expected bytes, or numbers from 0 to 1.")
    if images.size and not (np.isfinite(images).all() and images.min() >= 0 and images.max() <= 1):
        raise FileError(
            f"{path}: images has numbers from {images.min()} to {images.max()}; expected bytes (uint8), or numbers "
            "from 0 to 1."
        )
    return np.round(images.astype(np.float64) * 255).astype(np.uint8)


# --- pictures ----------------------------------------------------------------------------------------------


def read_image_folder(path: Path) -> list[LabelledImage]:
    """Read one folder of pictures per class; the name of the folder is the label."""
    classes = sorted(entry for entry in _entries(path) if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise FileError(f"{path} contains no folders; expected one folder of pictures per class.")
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
    """List the pictures in a folder, sorted by name."""
    pictures = sorted(entry for entry in _entries(folder) if entry.suffix.lower() in PICTURES)
    if not pictures:
        raise FileError(f"{folder} contains no pictures; expected files that end in {', '.join(PICTURES)}.")
    return pictures


def one_shape(images: list[LabelledImage]) -> list[LabelledImage]:
    """Return the images, or raise an error if the size of one differs from the first."""
    for image in images:
        if image.pixels.shape != images[0].pixels.shape:
            raise FileError(
                f"{image.where} is {describe_shape(image.pixels.shape)}; expected "
                f"{describe_shape(images[0].pixels.shape)}, like {images[0].where}: all images must have the same size."
            )
    return images


def read_picture(path: Path) -> Pixels:
    """Read a picture in grey (1 channel) or colour (3 channels). Transparent areas become black."""
    with needs_extra("images", "Reading a picture"):
        from PIL import Image, UnidentifiedImageError
    try:
        with Image.open(path) as picture:
            _check_size(path, 3 * picture.width * picture.height, max(picture.size))
            is_grey = picture.mode in ("1", "L", "LA", "I", "I;16", "F")
            if picture.mode in ("I", "I;16", "F"):  # scale grey values of more than 8 bits to 8 bits
                values = np.asarray(picture).astype(np.float64)
                most = 65535.0 if values.max(initial=0) > 255 else 255.0
                pixels = np.clip(values * 255 / most, 0, 255).astype(np.uint8)
            else:
                pixels = np.asarray(picture.convert("L" if is_grey else "RGB"))
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise FileError(f"{path} cannot be read as a picture: {error}.") from None
    except OSError as error:
        if error.errno is None:  # raised by Pillow for a truncated file
            raise FileError(f"{path} cannot be read as a picture: {error}.") from None
        raise unreadable(path, error) from error
    return pixels[..., None] if is_grey else pixels


def _entries(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as error:
        raise unreadable(path, error) from error


# --- all formats -------------------------------------------------------------------------------------------


def _labelled(pixels: UInt8[np.ndarray, "n H W C"], labels: Sequence[str], path: Path) -> list[LabelledImage]:
    if not len(pixels):
        raise FileError(f"There are no images in {path}.")
    return [
        LabelledImage(image, label, number, f"{path}, image {number}")
        for number, (image, label) in enumerate(zip(pixels, labels, strict=True), start=1)
    ]


def unseen_classes(images: Sequence[LabelledImage], known: Collection[str]) -> list[str]:
    """Return a note on classes that no training image has, if there are any: they count as errors. If most images
    have such a class, refuse them, since they must be of another set."""
    unseen = [image for image in images if image.label not in known]
    if not unseen:
        return []
    first = unseen[0]
    if 2 * len(unseen) > len(images):
        names = list(known)
        raise FileError(
            f"{first.where} has the label {first.label!r}, which no training image has, and neither do most others; it "
            f"must be one of {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}."
        )
    return [
        f"{len(unseen):,} of {len(images):,} images have a class that no training image has, and count as errors: "
        f"{', '.join(sorted({image.label for image in unseen})[:20])} (first: {first.where})"
    ]


def describe_shape(shape: tuple[int, ...]) -> str:
    """Describe a shape in words, such as "28×28 pixels, grey"."""
    height, width, channels = shape
    return f"{height}×{width} pixels, {'grey' if channels == 1 else 'in colour'}"


def describe_images(images: Sequence[LabelledImage], files: str, what: str) -> list[tuple[str, str]]:
    """Summarise images as (name, value) rows of a table."""
    labels = Counter(image.label for image in images)
    fewest, most = min(labels.values()), max(labels.values())
    distinct = len({image.source for image in images})
    return [
        (f"{what} files", files),
        (f"{what} images", f"{len(images):,}, {describe_shape(images[0].pixels.shape)}"),
        (f"{what} classes", f"{len(labels):,}, with {fewest:,} to {most:,} images each"),
        (f"{what} duplicates", f"{len(images) - distinct:,} kept" if distinct < len(images) else "none"),
    ]
