"""Where texts or images of an autoencoder come from: the ``[data]`` table of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from saccade.data.digits import read_digits
from saccade.data.grammar import generate
from saccade.data.images import (
    IDX_IMAGES,
    PICTURES,
    LabelledImage,
    describe_shape,
    one_shape,
    picture_files,
    read_idx_array,
    read_npz_arrays,
    read_picture,
)
from saccade.data.lines import choose_encoding, read_lines
from saccade.data.paths import resolve_path
from saccade.data.report import Lengths
from saccade.data.split import split
from saccade.errors import FileError, OptionError
from saccade.models import Config
from saccade.tasks.base.task import Splits

__all__ = ["AutoencoderData", "Line", "data_table", "read_given", "read_splits"]

#: Sentences of the built-in grammar that are held out, for each of validation and test.
BUILTIN_HELD_OUT = 500


@dataclass(frozen=True)
class Line:
    """A text, and the line that it stands on."""

    source: str
    line: int


class AutoencoderData(Config):
    """Texts or images, your own or built in; paths may use ~ and $SACCADE_DATA."""

    builtin: Literal["digits", "grammar"] | None = Field(
        None, description="Digits (scikit-learn's, an extra package), or grammar: built-in sentences"
    )
    sentences: int = Field(10000, ge=100, description="Training sentences drawn from the grammar")
    texts: str | None = Field(None, description="A file with one text per line")
    images: str | None = Field(None, description="An .npz file, an idx file, or a folder of pictures")
    validation: float = Field(
        0.1, ge=0, lt=1, description="Share held out for validation; equal examples stay together"
    )
    test: float = Field(0.0, ge=0, lt=1, description="Share held out for the final test")
    encoding: str | None = Field(None, description="Encoding of the texts, such as latin-1; detected if not given")

    @model_validator(mode="after")
    def _one_origin(self) -> AutoencoderData:
        if sum(origin is not None for origin in (self.builtin, self.texts, self.images)) != 1:
            raise ValueError("give one of builtin, texts and images")
        return self


def data_table(files: Sequence[Path], columns: str | None) -> dict[str, Any]:
    """The ``[data]`` table of one file: a folder, an .npz or an idx file holds images, any other file texts."""
    if columns is not None or len(files) != 1:
        raise OptionError("Give one file of texts, one a line, or of images; it has no columns.")
    (path,) = files
    holds_images = path.is_dir() or path.suffix.lower() == ".npz" or "idx3" in path.name
    return {"images" if holds_images else "texts": str(path)}


def read_splits(data: AutoencoderData, seed: int) -> Splits[Any]:
    """Read and part the examples; equal ones stay together."""
    if data.builtin == "grammar":
        counts = (data.sentences, BUILTIN_HELD_OUT, BUILTIN_HELD_OUT)
        parts = [
            _sentences(count, seed + number, name)
            for number, (count, name) in enumerate(zip(counts, ("train", "validation", "test"), strict=True))
        ]
        return Splits(parts[0], parts[1], parts[2], notes=["built-in synthetic corpus (docs/corpus.md)"])
    found = read_given(data)
    made = split(found, data.validation, data.test, seed)
    notes = [] if data.texts is None else [*choose_encoding(resolve_path(data.texts), data.encoding)[1]]
    return Splits(made.train, made.validation, made.test, _rows(data, found), notes)


def read_given(data: AutoencoderData) -> list[Any]:
    """All texts or images, as they are."""
    if data.builtin == "grammar":
        return _sentences(BUILTIN_HELD_OUT, 1, "test")
    if data.builtin == "digits":
        return list(read_digits())
    if data.texts is not None:
        return _lines(resolve_path(data.texts), data.encoding)
    return _images(resolve_path(str(data.images)))


def _sentences(count: int, seed: int, part: str) -> list[Line]:
    return [Line(example.source_text, number) for number, example in enumerate(generate(count, seed, part), start=1)]


def _lines(path: Path, encoding: str | None) -> list[Line]:
    found = [Line(text.strip(), number) for number, text in read_lines(path, encoding)]
    for one in found:
        if not one.source:
            raise FileError(f"{path}, line {one.line}: an empty text; expected one text a line.")
    if not found:
        raise FileError(f"There is no text in {path}.")
    return found


def _images(path: Path) -> list[LabelledImage]:
    """Images without labels."""
    if path.is_dir():
        folders = sorted(entry for entry in path.iterdir() if entry.is_dir())
        files = [picture for folder in folders or [path] for picture in picture_files(folder)]
        return one_shape([LabelledImage(read_picture(file), "", n, str(file)) for n, file in enumerate(files, start=1)])
    if path.suffix.lower() in PICTURES:
        raise FileError(f"{path} is one picture; expected a folder of pictures, an .npz or an idx file.")
    if path.suffix.lower() == ".npz":
        pixels = read_npz_arrays(path, None)[0]
    else:
        pixels = read_idx_array(path, IDX_IMAGES, "images")[..., None]
    if not len(pixels):
        raise FileError(f"There is no image in {path}.")
    return [LabelledImage(image, "", n, f"{path}, image {n}") for n, image in enumerate(pixels, start=1)]


def _rows(data: AutoencoderData, found: Sequence[Any]) -> list[tuple[str, str]]:
    file = data.texts or data.images or "scikit-learn's digits"
    if isinstance(found[0], Line):
        lengths = Lengths.of([len(one.source.split()) for one in found])
        return [("file", file), ("texts", f"{len(found):,}"), ("length in words", str(lengths))]
    return [("file", file), ("images", f"{len(found):,}, {describe_shape(found[0].pixels.shape)}")]
