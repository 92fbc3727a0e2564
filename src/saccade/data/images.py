"""Read labelled images: idx files (as for MNIST), ``.npz`` files, or one folder of pictures per class.

All images of a data set have the same size and number of channels: picture files are resized to one size; an idx or
``.npz`` file for validation or test is refused if its images do not have the size of the training images. Sizes are
checked before anything is decompressed, so that a small file cannot exhaust memory.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from jaxtyping import Shaped, UInt8

from saccade.data.lines import open_bytes, unreadable
from saccade.data.picture_folders import class_folders, note_left_out, picture_files
from saccade.errors import FileError, counted
from saccade.extras import needs_extra

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "IDX_IMAGES",
    "RESIZED",
    "Filter",
    "Fitting",
    "LabelledImage",
    "Pixels",
    "Shape",
    "describe_images",
    "describe_shape",
    "image_suffix",
    "one_shape",
    "picture_shape",
    "read_idx",
    "read_idx_array",
    "read_image_folder",
    "read_images",
    "read_npz",
    "read_npz_arrays",
    "read_picture",
    "read_pictures",
    "with_8_bits",
]

Pixels = UInt8[np.ndarray, "H W C"]
Shape = tuple[int, int, int]  # height, width, channels
Filter = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]  # Pillow's ways to resize

#: The maximum size of all images in memory, in bytes.
MOST_BYTES = 4 << 30
#: The maximum height and width of an image, in pixels.
LARGEST_SIDE = 4096
#: The longer side of pictures that are resized because their sizes differ, in pixels.
LARGEST_FITTED = 96
#: Pillow's modes of pictures without colour.
GREY_MODES = ("1", "L", "LA", "I", "I;16", "F")

#: The magic numbers of idx files with bytes in three dimensions, and in one.
IDX_IMAGES, IDX_LABELS = 0x803, 0x801
#: How files of each format begin.
_BEGINNINGS = {
    ".png": rb"\x89PNG\r\n",
    ".jpg": rb"\xff\xd8\xff",
    ".bmp": rb"BM....\0\0\0\0",
    ".gif": rb"GIF8[79]a",
    ".webp": rb"RIFF....WEBP",
    ".ppm": rb"P[1-6]\s",
    ".tif": rb"II\*\0|MM\0\*",
    ".npz": rb"PK\x03\x04",
    ".idx": re.escape(struct.pack(">I", IDX_IMAGES)),
}


class Fitting(NamedTuple):
    """How a picture is brought to the size that a model takes."""

    filter: Filter = "box"
    #: First resize to this height and width, or this shorter side, then cut out the middle; None: only resize.
    cut_from: tuple[int, int] | int | None = None


RESIZED = Fitting()


@dataclass(frozen=True)
class LabelledImage:
    """An image, its label, and where it was found."""

    pixels: Pixels
    label: str
    line: int  # its number in the file, counting from 1
    where: str  # for messages, such as "train.idx, image 7"

    @cached_property
    def source(self) -> str:
        """A hash of the pixels, which decides whether the image is for training, validation or test. Equal images go to
        the same part."""
        return hashlib.blake2b(self.pixels.tobytes(), digest_size=16).hexdigest()


def read_images(
    images: Path,
    labels: Path | None = None,
    shape: Shape | None = None,
    say: Callable[[str], None] = lambda note: None,
    fitting: Fitting = RESIZED,
) -> list[LabelledImage]:
    """Read images with labels from a folder with one subfolder per class, an ``.npz`` file, or a pair of idx files.
    Only pictures in a folder are resized to ``shape``; images in other files keep their size."""
    if images.is_dir():
        return read_image_folder(images, shape, say, fitting)
    if images.suffix.lower() == ".npz":
        return read_npz(images)
    if labels is None:
        raise FileError(
            f"{images} has no labels; give an idx file of images and one of labels, an .npz file with the arrays "
            "images and labels, or a folder with one subfolder of pictures per class."
        )
    return read_idx(images, labels)


def image_suffix(path: Path) -> str | None:
    """Return the suffix of the format in which a file without a name holds images, or None if it does not."""
    with open_bytes(path) as stream:
        beginning = stream.read(16)
    matching = (suffix for suffix, form in _BEGINNINGS.items() if re.match(form, beginning, re.DOTALL))
    return next(matching, None)


# --- idx ---------------------------------------------------------------------------------------------------


def read_idx(images: Path, labels: Path) -> list[LabelledImage]:
    """Read images and labels from two files in the format of MNIST, which may be compressed with gzip."""
    pixels, numbers = read_idx_array(images, IDX_IMAGES, "images"), read_idx_array(labels, IDX_LABELS, "labels")
    if len(pixels) != len(numbers):
        raise FileError(
            f"{images} has {counted(len(pixels), 'image')}, but {labels} has "
            f"{counted(len(numbers), 'label')}; there must be one label "
            "for each image."
        )
    return _labelled(pixels[..., None], [str(number) for number in numbers.tolist()], images)


def read_idx_array(path: Path, magic: int, what: str, most_bytes: int = MOST_BYTES) -> UInt8[np.ndarray, "n ..."]:
    """Return the values in an idx file: the bytes after its magic number and the sizes of its dimensions. ``what``
    names the values in messages; ``most_bytes`` is their largest size after decompression."""
    with open_bytes(path) as stream:
        return _idx_values(stream, path, magic, what, most_bytes)


def _idx_values(stream: IO[bytes], path: Path, magic: int, what: str, most_bytes: int) -> UInt8[np.ndarray, "n ..."]:
    dimensions = magic & 0xFF
    header = stream.read(4 + 4 * dimensions)
    found = int.from_bytes(header[:4], "big")
    if found != magic or len(header) < 4 + 4 * dimensions:
        raise FileError(f"{path} starts with the number {found}; an idx file of {what} starts with {magic}.")
    shape = struct.unpack(f">{dimensions}I", header[4:])
    size = int(np.prod(shape, dtype=object))
    _check_size(path, size, max(shape[1:], default=1), most_bytes)
    values = stream.read(size + 1)
    if len(values) != size:
        found_size = "more" if len(values) > size else f"only {len(values):,}"
        sizes = " × ".join(map(str, shape))
        raise FileError(f"{path} should have {sizes} = {size:,} bytes of {what}; it has {found_size}.")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def _check_size(where: str | Path, size: int, side: int, most_bytes: int = MOST_BYTES) -> None:
    if size > most_bytes:
        raise FileError(f"{where} has {size:,} bytes of images; the limit is {most_bytes:,}.")
    if side > LARGEST_SIDE:
        raise FileError(f"{where} has an image of {side:,} pixels along one side; the limit is {LARGEST_SIDE:,}.")


# --- npz ---------------------------------------------------------------------------------------------------


def read_npz(path: Path, labels: str = "labels") -> list[LabelledImage]:
    """Read the array ``images``, (n, H, W) or (n, H, W, C), of bytes or numbers from 0 to 1, and ``labels``, (n,)."""
    pixels, texts = read_npz_arrays(path, labels)
    return _labelled(pixels, texts, path)


def read_npz_arrays(
    path: Path, labels: str | None, most_bytes: int = MOST_BYTES
) -> tuple[UInt8[np.ndarray, "n H W C"], list[str]]:
    """Read the array ``images`` and, unless ``labels`` is None, the labels or texts in the array with that name.
    ``most_bytes`` is the largest size of all arrays after decompression."""
    try:
        with zipfile.ZipFile(path) as packed:
            entries = packed.infolist()
        # Of other compressions, zipfile may decompress far more than the size that an entry claims to have.
        if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
            raise FileError(f"{path} uses a compression that NumPy does not write; save it with np.savez_compressed.")
        _check_size(path, sum(entry.file_size for entry in entries), 1, most_bytes)
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
            f"{path} has {counted(len(pixels), 'image')}, but {labels} has shape {values.shape}; expected "
            f"({len(pixels)},)."
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


def read_image_folder(
    path: Path,
    shape: Shape | None = None,
    say: Callable[[str], None] = lambda note: None,
    fitting: Fitting = RESIZED,
) -> list[LabelledImage]:
    """Read the pictures in the subfolders of a folder, one subfolder per class, whose name is the label.

    See ``read_pictures`` for ``shape`` and ``say``.
    """
    classes = class_folders(path)
    if not classes:
        raise FileError(f"{path} contains no folders; expected one folder of pictures per class.")
    files = [(picture, folder.name) for folder in classes for picture in picture_files(folder)]
    for note in note_left_out(path, [picture for picture, _ in files]):
        say(note)
    pixels = read_pictures([picture for picture, _ in files], path, shape, say, fitting)
    return [
        LabelledImage(image, label, number, str(picture))
        for number, ((picture, label), image) in enumerate(zip(files, pixels, strict=True), start=1)
    ]


def read_pictures(
    files: Sequence[Path],
    where: Path,
    shape: Shape | None,
    say: Callable[[str], None],
    fitting: Fitting = RESIZED,
) -> list[Pixels]:
    """Return the pixels of each picture file in ``files``, all with the same shape.

    That is ``shape`` or, if it is None, the shape that all of them have; if their shapes differ, about their median
    size, in colour if one of them is in colour. If any were resized or converted, ``say`` is called with a note on how
    many. ``where`` names the pictures in messages.
    """
    shapes = [picture_shape(file) for file in files]
    shape = shape or _common_shape(shapes)
    _check_size(where, len(files) * int(np.prod(shape)), 1)
    others = sum(one != shape for one in shapes)
    if others:
        say(f"fitted {others:,} of {counted(len(files), 'picture')} in {where} to {describe_shape(shape)}")
    return [read_picture(file, shape, fitting) for file in files]


def _common_shape(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that all images have or, if they differ, a shape close to their median size that divides well
    into patches."""
    if len(set(shapes)) == 1:
        return shapes[0]
    height, width = (float(np.median([shape[axis] for shape in shapes])) for axis in (0, 1))
    scale = min(1.0, LARGEST_FITTED / max(height, width))
    height, width = (max(8, 8 * round(side * scale / 8)) for side in (height, width))
    return int(height), int(width), max(channels for _, _, channels in shapes)


def one_shape(images: list[LabelledImage]) -> list[LabelledImage]:
    """Return the images unchanged, or raise an error if one of them does not have the shape of the first."""
    for image in images:
        if image.pixels.shape != images[0].pixels.shape:
            raise FileError(
                f"{image.where} is {describe_shape(image.pixels.shape)}; expected "
                f"{describe_shape(images[0].pixels.shape)}, like {images[0].where}: all images must have the same size."
            )
    return images


def picture_shape(path: Path) -> Shape:
    """Return the height, width and number of channels of a picture file: 1 channel if it is grey, otherwise 3."""
    with _picture(path) as picture:
        return picture.height, picture.width, 1 if picture.mode in GREY_MODES else 3


def read_picture(path: Path, shape: Shape | None = None, fitting: Fitting = RESIZED) -> Pixels:
    """Return the pixels of a picture file, with 1 channel if it is grey and 3 if it is in colour; transparent areas
    have their stored colours. If ``shape`` is given, the picture is resized and converted to grey or colour to have
    that shape."""
    with _picture(path) as picture:
        pixels = np.asarray(with_8_bits(picture))
    is_grey = pixels.ndim == 2
    pixels = pixels[..., None] if is_grey else pixels
    if shape is None or (pixels.shape == shape and fitting.cut_from is None):
        return pixels
    from PIL import Image

    from saccade.data.pictures import fit_picture

    return fit_picture(Image.fromarray(pixels[..., 0] if is_grey else pixels), shape, fitting)


def with_8_bits(picture: Image.Image) -> Image.Image:
    """Convert a picture to 8 bits in each channel: one channel if it is grey, otherwise three.

    Pillow itself would make every grey value above 255 of a 16-bit picture white.
    """
    from PIL import Image

    if picture.mode in ("I", "I;16", "F"):  # grey values of more than 8 bits
        values = np.asarray(picture).astype(np.float64)
        most = 65535.0 if values.max(initial=0) > 255 else 255.0
        return Image.fromarray(np.clip(values * 255 / most, 0, 255).astype(np.uint8))
    return picture.convert("L" if picture.mode in GREY_MODES else "RGB")


@contextmanager
def _picture(path: Path) -> Iterator[Image.Image]:
    """Open a picture file, if it is not too large. Any error while it is read becomes a ``FileError``."""
    with needs_extra("images", "Reading a picture"):
        from PIL import Image, UnidentifiedImageError
    try:
        with Image.open(path) as picture:
            _check_size(path, 3 * picture.width * picture.height, max(picture.size))
            yield picture
    except FileError:
        raise
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise FileError(f"{path} cannot be read as a picture: {error}.") from None
    except OSError as error:
        if error.errno is None:  # raised by Pillow for a truncated file
            raise FileError(f"{path} cannot be read as a picture: {error}.") from None
        raise unreadable(path, error) from error


# --- all formats -------------------------------------------------------------------------------------------


def _labelled(pixels: UInt8[np.ndarray, "n H W C"], labels: Sequence[str], path: Path) -> list[LabelledImage]:
    if not len(pixels):
        raise FileError(f"There are no images in {path}.")
    return [
        LabelledImage(image, label, number, f"{path}, image {number}")
        for number, (image, label) in enumerate(zip(pixels, labels, strict=True), start=1)
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
        (f"{what} classes", f"{len(labels):,}, with {fewest:,} to {counted(most, 'image')} each"),
        (f"{what} duplicates", f"{len(images) - distinct:,} kept" if distinct < len(images) else "none"),
    ]
