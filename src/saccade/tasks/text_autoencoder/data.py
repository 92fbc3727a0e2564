"""Where the texts of an autoencoder come from: the ``[data]`` table of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from saccade.data.grammar import generate
from saccade.data.lines import choose_encoding, read_lines
from saccade.data.paths import resolve_path
from saccade.data.report import Lengths
from saccade.errors import FileError, OptionError
from saccade.models import Config
from saccade.tasks.base.data import DataReader, Say, Size, Splits, hold_out, write_lines

__all__ = ["Line", "TextAutoencoderData", "TextAutoencoderFiles"]

#: Sentences of the built-in grammar held out for validation, and as many for test.
BUILTIN_HELD_OUT = 500


@dataclass(frozen=True)
class Line:
    """A text, and its line number."""

    source: str
    line: int


class TextAutoencoderData(Config):
    """Texts, your own or built in; paths may use ~ and $SACCADE_DATA."""

    builtin: Literal["grammar"] | None = Field(None, description="grammar: the built-in English sentences")
    sentences: int = Field(10000, ge=100, description="Training sentences drawn from the grammar")
    texts: str | None = Field(None, description="A file with one text per line")
    validation: float = Field(0.1, ge=0, lt=1, description="Share held out for validation; equal texts stay together")
    test: float = Field(0.0, ge=0, lt=1, description="Share held out for the final test")
    encoding: str | None = Field(None, description="Encoding of the file, such as latin-1; detected if not given")

    @model_validator(mode="after")
    def _one_origin(self) -> TextAutoencoderData:
        if (self.builtin is None) == (self.texts is None):
            raise ValueError("give one of builtin and texts")
        return self


class TextAutoencoderFiles(DataReader[Line]):
    """Texts, one per line, or built in."""

    settings = TextAutoencoderData
    read_as = ("encoding",)

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        if columns is not None or len(files) != 1:
            raise OptionError("Give one file with one text per line; it has no columns.")
        return {"texts": str(files[0])}

    @classmethod
    def read(cls, settings: TextAutoencoderData, seed: int) -> Splits[Line]:
        if settings.builtin is not None:
            counts = {"train": settings.sentences, "validation": BUILTIN_HELD_OUT, "test": BUILTIN_HELD_OUT}
            parts = [_sentences(count, seed + i, name) for i, (name, count) in enumerate(counts.items())]
            return Splits(parts[0], parts[1], parts[2], notes=["built-in synthetic corpus (docs/reference/corpus.md)"])
        notes: list[str] = []
        found = cls.read_for_scoring(settings, notes.append)
        lengths = Lengths.of([len(one.source.split()) for one in found])
        rows = [("file", str(settings.texts)), ("texts", f"{len(found):,}"), ("length in words", str(lengths))]
        return Splits(*hold_out(found, {}, settings, seed), rows, notes)

    @classmethod
    def read_for_scoring(cls, settings: TextAutoencoderData, say: Say = lambda note: None) -> list[Line]:
        if settings.texts is None:
            return _sentences(BUILTIN_HELD_OUT, 1, "test")
        path = resolve_path(settings.texts)
        encoding, notes = choose_encoding(path, settings.encoding)
        for note in notes:
            say(note)
        found = [Line(text.strip(), number) for number, text in read_lines(path, encoding)]
        for one in found:
            if not one.source:
                raise FileError(f"{path}, line {one.line}: the line is empty; there must be one text per line.")
        if not found:
            raise FileError(f"There are no texts in {path}.")
        return found

    @classmethod
    def write(cls, settings: TextAutoencoderData, examples: Sequence[Line], path: Path) -> list[str]:
        return ["--data", str(write_lines(path.with_suffix(".txt"), [one.source for one in examples]))]

    @classmethod
    def recommend(cls, splits: Splits[Line], size: Size) -> dict[str, Any]:
        count = len(splits.train)
        return {
            "text": {"kind": "bpe", "vocabulary": max(300, min(8_000, 2 * count)), "mask": 0.1},
            "model": {
                "kind": "recurrent",
                "cell": "gru_torch",
                "width": {"tiny": 128, "small": 256, "medium": 512}[size],
                "embedding_width": 128,
                "code_width": 64,
                "dropout": 0.1,
            },
            "training": {
                "steps": 3000 if count <= 20_000 else 10_000,
                "batch_tokens": 1024,
                "lr": 2e-3,
                "label_smoothing": 0.0,
            },
        }

    @classmethod
    def identity(cls, example: Line) -> bytes:
        return f"{example.source}\n".encode()


def _sentences(count: int, seed: int, part: str) -> list[Line]:
    return [Line(example.source_text, number) for number, example in enumerate(generate(count, seed, part), start=1)]
