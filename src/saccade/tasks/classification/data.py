"""Where the texts of a classifier come from: the ``[data]`` table of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from saccade.data.grammar import generate
from saccade.data.labelled import LabelledText, read_labelled
from saccade.data.labels import LabelReport
from saccade.data.paths import column, resolve_path
from saccade.tasks.base.labelled_data import BUILTIN_HELD_OUT, LabelledData, read_parts
from saccade.tasks.base.task import Splits

__all__ = ["ClassificationData", "read_given_texts", "read_texts"]


class ClassificationData(LabelledData):
    """Labelled texts: a table, or lines of a label and a text; paths may use ~ and $SACCADE_DATA."""

    text_column: str = Field("text", description="Text column: its name, or its number counted from 0")
    label_column: str = Field("label", description="Label column: its name, or its number counted from 0")
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced: rare labels weigh as much as frequent ones"
    )


def read_texts(data: ClassificationData, seed: int) -> Splits[LabelledText]:
    """Read and part the texts."""
    if data.builtin is not None:
        counts = {"train": data.sentences, "validation": BUILTIN_HELD_OUT, "test": BUILTIN_HELD_OUT}
        parts = [_from_grammar(count, seed + i, name) for i, (name, count) in enumerate(counts.items())]
        return Splits(parts[0], parts[1], parts[2], notes=["built-in synthetic corpus (docs/corpus.md)"])
    return read_parts(data, lambda path, _: _read(data, path), seed)


def read_given_texts(data: ClassificationData) -> list[LabelledText]:
    """The texts of the file as they are; of the built-in corpus those for testing."""
    if data.file is None:
        return read_texts(data, seed=1).test
    return _read(data, resolve_path(data.file))[0]


def _read(data: ClassificationData, path: Path) -> tuple[list[LabelledText], LabelReport]:
    return read_labelled(path, column(data.text_column), column(data.label_column), encoding=data.encoding)


def _from_grammar(count: int, seed: int, part: str) -> list[LabelledText]:
    """Its reviews, praise or blame."""
    return [
        LabelledText(example.source_text, example.sentiment, number, "the built-in corpus")
        for number, example in enumerate(generate(count, seed, part, kind="review"), start=1)
        if example.sentiment is not None
    ]
