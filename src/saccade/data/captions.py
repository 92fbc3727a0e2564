"""Read images with captions from a table of paths and texts, or from an ``.npz`` file (``images`` and ``texts``)."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from pathlib import Path

from saccade.data.digits import Captioned
from saccade.data.images import Shape, describe_shape, read_npz_arrays, read_pictures
from saccade.data.tables import Column, read_columns, refuse_separator
from saccade.errors import FileError

__all__ = ["IN_ORDER", "describe_captions", "find_picture", "read_captions"]

#: The columns of a table that does not name them.
IN_ORDER = ("image", "text")


def read_captions(
    path: Path,
    image: Column = "image",
    text: Column = "text",
    encoding: str | None = None,
    separator: str | None = None,
    *,
    shape: Shape | None = None,
    say: Callable[[str], None] = lambda note: None,
) -> list[Captioned]:
    """Read images and their captions from a file. Paths in a table are relative to the table's folder. See
    ``read_pictures`` for ``shape`` and ``say``."""
    if path.suffix.lower() == ".npz":
        refuse_separator(path, separator)
        pixels, texts = read_npz_arrays(path, "texts")
        found = [
            Captioned(image, _one_line(caption), number, f"{path}, image {number}")
            for number, (image, caption) in enumerate(zip(pixels, texts, strict=True), start=1)
        ]
    else:
        _, rows = read_columns(path, (image, text), encoding=encoding, in_order=IN_ORDER, separator=separator)
        files, captions = [], []
        for line, (name, caption) in rows:
            where = f"{path}, line {line}"
            files.append(find_picture(path.parent, name, where, f"{image} and {text}"))
            captions.append((_one_line(caption), line, where))
        pictures = read_pictures(files, path, shape, say) if files else []
        found = [Captioned(picture, *caption) for picture, caption in zip(pictures, captions, strict=True)]
    if not found:
        raise FileError(f"There are no images in {path}.")
    for pair in found:
        if not pair.text:
            raise FileError(f"{pair.where} has an empty text; expected a description of the image.")
    return found


def find_picture(folder: Path, name: str, where: str, columns: str) -> Path:
    """Return the picture that a table names by its path relative to ``folder``."""
    file = folder / name.strip()
    if not os.path.isfile(file):  # unlike Path.is_file, this accepts any text as a name
        raise FileError(
            f"{where}: there is no picture {str(file)!r}; expected paths relative to the folder {str(folder)!r}, in a "
            f"table whose columns of images and texts are {columns}; choose other columns with "
            "--columns or, in a recipe, with data.image_column and data.text_column."
        )
    return file


def describe_captions(pairs: list[Captioned], files: str, what: str) -> list[tuple[str, str]]:
    """Summarise captioned images as (name, value) rows of a table."""
    words = [len(pair.text.split()) for pair in pairs]
    return [
        (f"{what} files", files),
        (f"{what} images", f"{len(pairs):,}, {describe_shape(pairs[0].pixels.shape)}"),
        (f"{what} texts", f"{len({pair.text for pair in pairs}):,} different, {min(words)} to {max(words)} words"),
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())
