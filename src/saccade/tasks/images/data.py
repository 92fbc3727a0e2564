"""Read labelled images, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from saccade.data.digits import read_digits
from saccade.data.images import (
    Filter,
    Fitting,
    LabelledImage,
    Shape,
    describe_images,
    describe_shape,
    one_shape,
    read_images,
)
from saccade.data.labels import note_unseen
from saccade.data.paths import part_prefixes, resolve_path
from saccade.data.split import overlap
from saccade.errors import FileError, OptionError, counted
from saccade.tasks.base.data import SHAPE, BuiltinOrFile, PictureReader, Say, Size, Splits, hold_out
from saccade.tasks.base.image_task import suggest_patch

__all__ = ["ImageData", "ImagesFiles", "idx_files"]


class ImageData(BuiltinOrFile):
    """Labelled images, your own or built in; paths may use ~ and $SACCADE_DATA."""

    file_key = "images"

    builtin: Literal["digits"] | None = Field(
        None, description="digits: scikit-learn's handwritten digits (install saccade[digits])"
    )
    images: str | None = Field(
        None, description="An .npz file, an idx file (which also needs labels), or a folder with one folder per class"
    )
    labels: str | None = Field(None, description="The idx file with the labels of images")
    classes: list[str] = Field(
        default_factory=list, description="Names of the labels 0, 1, ... in order; if empty, the numbers are the names"
    )
    shape: tuple[int, int, int] | None = SHAPE
    filter: Filter = Field("box", description="How pictures are resized: nearest, lanczos, bilinear, bicubic, ...")
    cut_from: tuple[int, int] | int | None = Field(
        None,
        description="First resize to this height and width (or, if one number, this shorter side), then crop the "
        "middle; if not given, pictures are resized directly to the shape",
    )
    validation_images: str | None = Field(
        None,
        description="Validation images, used to select the best model; by default, a fraction of the training images",
    )
    validation_labels: str | None = Field(None, description="Labels of validation_images")
    test_images: str | None = Field(None, description="Images that are scored once, at the end")
    test_labels: str | None = Field(None, description="Labels of test_images")
    validation: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="Fraction of the data held out for validation if no file is given; equal images stay together",
    )
    test: float = Field(
        0.0, ge=0, lt=1, description="Fraction of the data held out for the final test if no file is given"
    )

    @model_validator(mode="after")
    def _check_labels(self) -> ImageData:
        for part in ("", "validation_", "test_"):
            if getattr(self, f"{part}labels") is not None and getattr(self, f"{part}images") is None:
                raise ValueError(f"{part}labels needs {part}images")
        return self


#: The width and the number of layers of each size.
NETWORKS: dict[Size, tuple[int, int]] = {"tiny": (64, 3), "small": (64, 4), "medium": (128, 6)}
#: A data set with at most this many images is small: each image is seen more often, and the network needs dropout.
FEW = 5_000
BATCH = 64


class ImagesFiles(PictureReader[LabelledImage]):
    """Reads labelled images from folders, .npz files or idx files."""

    settings = ImageData
    read_as = ("classes", "shape", "filter", "cut_from")
    inherited = ("shape", "filter", "cut_from")

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        """Return the ``[data]`` table for folders, .npz files, or pairs of idx files: images, then their labels."""
        if columns is not None:
            raise OptionError("--columns only applies to tables; images have no columns.")
        if len(files) == 1 and files[0].is_dir() and (found := idx_files(files[0])):
            return found
        have_labels = bool(files) and (files[0].is_dir() or files[0].suffix.lower() == ".npz")
        kinds = ("images",) if have_labels else ("images", "labels")
        if not files or len(files) % len(kinds) or len(files) > 3 * len(kinds):
            for file in files:
                if not file.exists():
                    raise FileError(f"There is no file or folder {file}.")
            raise OptionError(
                "For training and, optionally, for validation and test, give a folder, an .npz file, or an idx file of "
                f"images followed by the idx file of their labels, not these: {', '.join(map(str, files))}."
            )
        keys = [f"{part}{kind}" for part in part_prefixes(files[:: len(kinds)]) for kind in kinds]
        return dict(zip(keys, map(str, files), strict=True))

    @classmethod
    def read(cls, settings: ImageData, seed: int) -> Splits[LabelledImage]:
        """Read the images, and split them into training, validation and test; equal images stay in the same part."""
        notes: list[str] = []
        train = _read(settings, "", settings.shape, notes.append)
        rows = describe_images(train, _files(settings, ""), "training")
        held_out: dict[str, list[LabelledImage]] = {}
        for part in ("validation", "test"):
            if getattr(settings, f"{part}_images") is not None:
                held_out[part] = _read(settings, f"{part}_", train[0].pixels.shape, notes.append)
                one_shape([train[0], *held_out[part]])
                rows += describe_images(held_out[part], _files(settings, f"{part}_"), part)
                shared = overlap(train, held_out[part])
                if shared.sources:
                    notes.append(f"training and {part} share {counted(shared.sources, 'image')}")
        train, validation, test = hold_out(train, held_out, settings, seed, lambda image: (image.label,))
        known = {image.label for image in train}
        return Splits(train, validation, test, rows, [*notes, *note_unseen((*validation, *test), known)])

    @classmethod
    def read_for_scoring(cls, settings: ImageData, say: Say = lambda note: None) -> list[LabelledImage]:
        found = _read(settings, "", settings.shape, say)
        say(f"{_files(settings, '')}, {describe_shape(found[0].pixels.shape)}")
        return found

    @classmethod
    def write(cls, settings: ImageData, examples: Sequence[LabelledImage], path: Path) -> list[str]:
        numbers = {name: str(number) for number, name in enumerate(settings.classes)}
        file = path.with_suffix(".npz")
        labels = [numbers.get(image.label, image.label) for image in examples]
        np.savez_compressed(file, images=np.stack([image.pixels for image in examples]), labels=labels)
        return ["--data", str(file)]

    @classmethod
    def suitable(cls, splits: Splits[LabelledImage]) -> Size:
        count = len(splits.train)
        return "tiny" if count <= FEW else "small" if count <= 100_000 else "medium"

    @classmethod
    def recommend(cls, splits: Splits[LabelledImage], size: Size) -> dict[str, Any]:
        """Recommend a Transformer that reads its patches by convolutions and has fixed (sinusoidal) positions: it
        learns faster than with linear projections of the patches and learned positions. If there are few images, they
        are shifted at random, so that the network cannot memorise them. If there are many, the network sees each only
        a few times, and shifts would make learning slower."""
        count = len(splits.train)
        height, width, channels = splits.train[0].pixels.shape
        model_width, layers = NETWORKS[size]
        passes = 80 if count <= FEW else 12
        patch = suggest_patch(height, width)
        can_halve = patch > 1 and patch.bit_count() == 1  # the convolutions halve the image until a patch is one pixel
        return {
            "images": {"shift": max(1, min(height, width) // 14) if count <= FEW else 0},
            "model": {
                "kind": "transformer",
                "image_size": [height, width],
                "channels": channels,
                "patch": patch,
                "stem": "convolution" if can_halve else "patch",
                "position": "sinusoidal",
                "width": model_width,
                "num_heads": 4,
                "encoder_layers": layers,
                "feedforward_width": 2 * model_width,
                "dropout": 0.1 if count <= FEW else 0.0,
                "pooling": "mean",
            },
            "training": {
                "steps": min(20_000, max(200, passes * count // BATCH)),
                "batch_images": BATCH,
                "lr": 1.5e-3 if model_width <= 64 else 1e-3,
                "weight_decay": 0.05,
            },
        }

    @classmethod
    def identity(cls, example: LabelledImage) -> bytes:
        return f"{example.source}\t{example.label}\n".encode()


def idx_files(folder: Path) -> dict[str, str]:
    """Return the ``[data]`` table for a folder of idx files, whose names say whether they have images or labels, and
    for which part of the data; empty if there are none."""
    found: dict[str, str] = {}
    for images in sorted(folder.glob("*images*idx*")):
        labels = folder / images.name.replace("images", "labels").replace("idx3", "idx1")
        if not labels.exists():
            raise FileError(f"There is no file {labels}, which should have the labels of the images in {images.name}.")
        part = "test_" if re.match("(?i)t10k|test", images.name) else "validation_" if "val" in images.name else ""
        found |= {f"{part}images": str(images), f"{part}labels": str(labels)}
    if found and "images" not in found:  # there is only one part, so it is the one to read
        return {key.partition("_")[2]: path for key, path in list(found.items())[:2]}
    return found


def _read(data: ImageData, part: str, shape: Shape | None, say: Say) -> list[LabelledImage]:
    """Read the images of one part, and replace the numbers of their labels by the names of the classes, if given."""
    if data.builtin is not None and not part:
        images = read_digits()
    else:
        file, labels = getattr(data, f"{part}images"), getattr(data, f"{part}labels")
        fitting = Fitting(data.filter, data.cut_from)
        images = read_images(resolve_path(file), None if labels is None else resolve_path(labels), shape, say, fitting)
    if not data.classes:
        return images
    names = {str(number): name for number, name in enumerate(data.classes)}
    for image in images:
        if image.label not in names:
            raise FileError(
                f"{image.where} has the label {image.label!r}, but data.classes only names 0 to {len(names) - 1}."
            )
    return [replace(image, label=names[image.label]) for image in images]


def _files(data: ImageData, part: str) -> str:
    if data.builtin is not None and not part:
        return "scikit-learn's digits"
    names = (getattr(data, f"{part}{what}") for what in ("images", "labels"))
    return ", ".join(name for name in names if name is not None)
