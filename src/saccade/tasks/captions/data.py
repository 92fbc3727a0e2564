"""Read images and their captions, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from saccade.data.captions import describe_captions, read_captions
from saccade.data.digits import Captioned, captioned_digits, read_digits
from saccade.data.images import Shape, describe_shape
from saccade.data.lines import choose_encoding
from saccade.data.paths import column, part_prefixes, resolve_path
from saccade.data.split import overlap, split
from saccade.errors import FileError, OptionError, counted
from saccade.tasks.base.data import (
    SEPARATOR,
    SHAPE,
    BuiltinOrFile,
    PictureReader,
    Say,
    Size,
    Splits,
    column_keys,
    hold_out,
)
from saccade.tasks.base.image_task import suggest_patch

__all__ = ["CaptionData", "CaptionsFiles"]

#: The number of captioned images that are made of held-out digits, for validation and for test.
BUILTIN_HELD_OUT = (300, 1000)
#: The default fraction of digits held out for the test images.
BUILTIN_TEST = 0.2


class CaptionData(BuiltinOrFile):
    """Images with captions, your own or built in; paths may use ~ and $SACCADE_DATA."""

    file_key = "table"

    builtin: Literal["digits"] | None = Field(
        None, description="digits: images of one or two of scikit-learn's digits (install saccade[digits])"
    )
    count: int = Field(12000, ge=100, description="Number of training images to make from digits")
    table: str | None = Field(
        None, description="A .tsv, .csv or .jsonl file of paths and texts, or an .npz file with images and texts"
    )
    image_column: str = Field(
        "image",
        description="Image column: its name, or its number, counting from 0; paths are relative to the table's folder",
    )
    text_column: str = Field("text", description="Text column: its name, or its number, counting from 0")
    shape: tuple[int, int, int] | None = SHAPE
    separator: str | None = SEPARATOR
    encoding: str | None = Field(None, description="Encoding of the files, such as latin-1; detected if not given")
    validation_table: str | None = Field(
        None,
        description="Validation table, used to select the best model; by default, a fraction of the training images",
    )
    test_table: str | None = Field(None, description="Table that is scored once, at the end")
    validation: float = Field(
        0.1, ge=0, lt=1, description="Fraction of the images (or of the digits) held out for validation"
    )
    test: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Fraction of the data held out for the final test; by default 0, or 0.2 of the digits",
    )


#: The width and the number of layers of each size.
NETWORKS: dict[Size, tuple[int, int]] = {"tiny": (64, 2), "small": (96, 2), "medium": (192, 4)}
BATCH_TOKENS = 512


class CaptionsFiles(PictureReader[Captioned]):
    """Reads images with captions from tables or .npz files, or makes them from digits."""

    settings = CaptionData
    read_as = ("image_column", "text_column", "shape", "separator", "encoding")
    column_fields = ("image_column", "text_column")
    inherited = ("shape",)

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        if not 1 <= len(files) <= 3:
            raise OptionError(f"Give one to three tables of images and texts, or .npz files, not {len(files)}.")
        table = {f"{part}table": str(file) for part, file in zip(part_prefixes(files), files, strict=True)}
        return table | column_keys(columns, "image", "text")

    @classmethod
    def read(cls, settings: CaptionData, seed: int) -> Splits[Captioned]:
        """Read images with captions, and split them into training, validation and test. If they are made from built-in
        digits, the digits in test images never occur in training images."""
        if settings.builtin is not None:
            return _digits(settings, seed)
        notes = _encoding_notes(settings, str(settings.table))
        train = _read(settings, settings.table, settings.shape, notes.append)
        rows = describe_captions(train, str(settings.table), "training")
        held_out: dict[str, list[Captioned]] = {}
        for part in ("validation", "test"):
            table = getattr(settings, f"{part}_table")
            if table is None:
                continue
            held_out[part] = _read(settings, table, train[0].pixels.shape, notes.append)
            rows += describe_captions(held_out[part], table, part)
            notes += _encoding_notes(settings, table)
            if held_out[part][0].pixels.shape != train[0].pixels.shape:
                shapes = [describe_shape(pairs[0].pixels.shape) for pairs in (held_out[part], train)]
                raise FileError(f"{table} has images of {shapes[0]}; they must be {shapes[1]}, as in {settings.table}.")
            shared = overlap(train, held_out[part])
            if shared.sources:
                notes.append(f"training and {part} share {counted(shared.sources, 'image')}")
        return Splits(*hold_out(train, held_out, settings, seed), rows, notes)

    @classmethod
    def read_for_scoring(cls, settings: CaptionData, say: Say = lambda note: None) -> list[Captioned]:
        """Return all examples of the table, or the test images made from the built-in digits."""
        if settings.table is None:
            return _digits(settings, seed=1).test
        for note in _encoding_notes(settings, settings.table):
            say(note)
        return _read(settings, settings.table, settings.shape, say)

    @classmethod
    def write(cls, settings: CaptionData, examples: Sequence[Captioned], path: Path) -> list[str]:
        file = path.with_suffix(".npz")
        images = np.stack([pair.pixels for pair in examples])
        np.savez_compressed(file, images=images, texts=[pair.text for pair in examples])
        return ["--data", str(file)]

    @classmethod
    def suitable(cls, splits: Splits[Captioned]) -> Size:
        count = len(splits.train)
        return "tiny" if count <= 2_000 else "small" if count <= 20_000 else "medium"

    @classmethod
    def recommend(cls, splits: Splits[Captioned], size: Size) -> dict[str, Any]:
        count = len(splits.train)
        height, across, channels = splits.train[0].pixels.shape
        longest = max(len(pair.text.split()) for pair in splits.train)
        width, layers = NETWORKS[size]
        passes = 100 if count <= 2_000 else 30 if count <= 20_000 else 15
        images_a_batch = max(1, BATCH_TOKENS // (longest + 1))
        words = len({word for pair in splits.train for word in pair.text.split()})
        return {
            "text": {"kind": "word" if words <= 2_000 else "bpe", "vocabulary": 8_000},
            "images": {"shift": max(1, min(height, across) // 14)},
            "model": {
                "kind": "transformer",
                "image_size": [height, across],
                "channels": channels,
                "patch": suggest_patch(height, across),
                "width": width,
                "num_heads": 4,
                "encoder_layers": layers,
                "decoder_layers": layers,
                "feedforward_width": 2 * width,
                "dropout": 0.1,
                "max_length": max(64, 4 * longest),
                "position": "sinusoidal",
            },
            "training": {
                "steps": min(20_000, max(300, passes * count // images_a_batch)),
                "batch_tokens": BATCH_TOKENS,
                "lr": 1e-3,
                "weight_decay": 0.05,
            },
        }

    @classmethod
    def identity(cls, example: Captioned) -> bytes:
        return f"{example.source}\t{example.text}\n".encode()


def _digits(data: CaptionData, seed: int) -> Splits[Captioned]:
    parts = split(read_digits(), data.validation, BUILTIN_TEST if data.test is None else data.test, seed)
    counts = (data.count, *BUILTIN_HELD_OUT)
    made = [
        captioned_digits(digits, count if digits else 0, seed + number)
        for number, (digits, count) in enumerate(zip((parts.train, parts.validation, parts.test), counts, strict=True))
    ]
    rows = describe_captions(made[0], "scikit-learn's digits, one or two per image", "training")
    notes = [f"test images use {len(parts.test)} digits that do not occur in training images"] if parts.test else []
    return Splits(made[0], made[1], made[2], rows, notes)


def _read(data: CaptionData, table: str | None, shape: Shape | None, say: Say) -> list[Captioned]:
    assert table is not None
    columns = column(data.image_column), column(data.text_column)
    return read_captions(resolve_path(table), *columns, data.encoding, data.separator, shape=shape, say=say)


def _encoding_notes(data: CaptionData, table: str) -> list[str]:
    return [] if table.lower().endswith(".npz") else list(choose_encoding(resolve_path(table), data.encoding)[1])
