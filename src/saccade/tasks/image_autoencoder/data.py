"""Read images without labels, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from saccade.data.digits import read_digits
from saccade.data.images import (
    IDX_IMAGES,
    LabelledImage,
    describe_shape,
    read_idx_array,
    read_npz_arrays,
    read_pictures,
)
from saccade.data.paths import resolve_path
from saccade.data.picture_folders import PICTURES, note_left_out, pictures_within
from saccade.errors import FileError, OptionError
from saccade.tasks.base.data import SHAPE, BuiltinOrFile, PictureReader, Say, Size, Splits, hold_out
from saccade.tasks.base.image_task import suggest_patch

__all__ = ["ImageAutoencoderData", "ImageAutoencoderFiles"]


class ImageAutoencoderData(BuiltinOrFile):
    """Images, your own or built in; paths may use ~ and $SACCADE_DATA."""

    file_key = "images"

    builtin: Literal["digits"] | None = Field(
        None, description="digits: scikit-learn's handwritten digits (install saccade[digits])"
    )
    images: str | None = Field(None, description="An .npz file, an idx file, or a folder of pictures")
    shape: tuple[int, int, int] | None = SHAPE
    validation: float = Field(
        0.1, ge=0, lt=1, description="Fraction of the data held out for validation; equal images stay together"
    )
    test: float = Field(0.0, ge=0, lt=1, description="Fraction of the data held out for the final test")


class ImageAutoencoderFiles(PictureReader[LabelledImage]):
    """Reads images without labels."""

    settings = ImageAutoencoderData
    read_as = ("shape",)
    inherited = ("shape",)

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        if columns is not None or len(files) != 1:
            raise OptionError("Give one folder of pictures, one .npz file or one idx file, without --columns.")
        return {"images": str(files[0])}

    @classmethod
    def read(cls, settings: ImageAutoencoderData, seed: int) -> Splits[LabelledImage]:
        notes: list[str] = []
        found = cls.read_for_scoring(settings, notes.append)
        file = settings.images or "scikit-learn's digits"
        rows = [("file", file), ("images", f"{len(found):,}, {describe_shape(found[0].pixels.shape)}")]
        return Splits(*hold_out(found, {}, settings, seed), rows, notes)

    @classmethod
    def read_for_scoring(cls, settings: ImageAutoencoderData, say: Say = lambda note: None) -> list[LabelledImage]:
        if settings.images is None:
            return list(read_digits())
        path = resolve_path(settings.images)
        if path.is_dir():
            files = pictures_within(path)
            for note in note_left_out(path, files):
                say(note)
            pictures = enumerate(zip(files, read_pictures(files, path, settings.shape, say), strict=True), start=1)
            return [LabelledImage(image, "", n, str(file)) for n, (file, image) in pictures]
        if path.suffix.lower() in PICTURES:
            raise FileError(f"{path} is a single picture; give a folder of pictures, an .npz file or an idx file.")
        if path.suffix.lower() == ".npz":
            pixels = read_npz_arrays(path, None)[0]
        else:
            pixels = read_idx_array(path, IDX_IMAGES, "images")[..., None]
        if not len(pixels):
            raise FileError(f"There are no images in {path}.")
        return [LabelledImage(image, "", n, f"{path}, image {n}") for n, image in enumerate(pixels, start=1)]

    @classmethod
    def write(cls, settings: ImageAutoencoderData, examples: Sequence[LabelledImage], path: Path) -> list[str]:
        file = path.with_suffix(".npz")
        np.savez_compressed(file, images=np.stack([image.pixels for image in examples]))
        return ["--data", str(file)]

    @classmethod
    def recommend(cls, splits: Splits[LabelledImage], size: Size) -> dict[str, Any]:
        height, width, channels = splits.train[0].pixels.shape
        model_width = {"tiny": 32, "small": 64, "medium": 128}[size]
        return {
            "images": {"noise": 0.1},
            "model": {
                "kind": "patches",
                "image_size": [height, width],
                "channels": channels,
                "patch": suggest_patch(height, width),
                "width": model_width,
                "num_heads": 4,
                "feedforward_width": 2 * model_width,
                "position": "sinusoidal",
                "code_width": 16,
            },
            "training": {
                "steps": max(1000, min(20_000, 20 * len(splits.train) // 64)),
                "batch_images": 64,
                "lr": 2e-3,
            },
        }

    @classmethod
    def identity(cls, example: LabelledImage) -> bytes:
        return f"{example.source}\n".encode()
