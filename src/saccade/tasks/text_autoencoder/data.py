"""Read texts without labels, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from saccade.data.grammar import generate
from saccade.data.lines import choose_encoding, read_lines, suffix
from saccade.data.paths import resolve_path
from saccade.data.report import Lengths
from saccade.data.tables import TABLES
from saccade.errors import FileError, OptionError
from saccade.tasks.base.data import BuiltinOrFile, DataReader, Say, Size, Splits, draw_splits, hold_out, write_lines

__all__ = ["TextAutoencoderData", "TextAutoencoderFiles", "TextLine"]

#: The number of built-in sentences held out for validation, and as many again for test.
BUILTIN_HELD_OUT = 500


@dataclass(frozen=True)
class TextLine:
    """A text, and its line number."""

    source: str
    line: int


class TextAutoencoderData(BuiltinOrFile):
    """Texts, your own or built in; paths may use ~ and $SACCADE_DATA."""

    file_key = "texts"

    builtin: Literal["grammar"] | None = Field(None, description="grammar: the built-in English sentences")
    sentences: int = Field(10000, ge=100, description="Training sentences drawn from the built-in corpus")
    texts: str | None = Field(None, description="A file with one text per line")
    validation: float = Field(
        0.1, ge=0, lt=1, description="Fraction of the data held out for validation; equal texts stay together"
    )
    test: float = Field(0.0, ge=0, lt=1, description="Fraction of the data held out for the final test")
    encoding: str | None = Field(None, description="Encoding of the file, such as latin-1; detected if not given")


class TextAutoencoderFiles(DataReader[TextLine]):
    """Reads texts, one per line, or draws them from the built-in corpus."""

    settings = TextAutoencoderData
    read_as = ("encoding",)
    most_updates = 5_000

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        if columns is not None or len(files) != 1 or suffix(files[0]) in (*TABLES, ".json"):
            raise OptionError("Give one file with one text per line, not a table, and without --columns.")
        return {"texts": str(files[0])}

    @classmethod
    def read(cls, settings: TextAutoencoderData, seed: int) -> Splits[TextLine]:
        if settings.builtin is not None:
            return draw_splits(settings.sentences, BUILTIN_HELD_OUT, seed, _sentences)
        notes: list[str] = []
        found = cls.read_for_scoring(settings, notes.append)
        lengths = Lengths.of([len(one.source.split()) for one in found])
        rows = [("file", str(settings.texts)), ("texts", f"{len(found):,}"), ("length in words", str(lengths))]
        return Splits(*hold_out(found, {}, settings, seed), rows, notes)

    @classmethod
    def read_for_scoring(cls, settings: TextAutoencoderData, say: Say = lambda note: None) -> list[TextLine]:
        if settings.texts is None:
            return _sentences(BUILTIN_HELD_OUT, 1, "test")
        path = resolve_path(settings.texts)
        encoding, notes = choose_encoding(path, settings.encoding)
        for note in notes:
            say(note)
        found = [TextLine(text.strip(), number) for number, text in read_lines(path, encoding)]
        for one in found:
            if not one.source:
                raise FileError(f"{path}, line {one.line}: the line is empty; there must be one text per line.")
        if not found:
            raise FileError(f"There are no texts in {path}.")
        return found

    @classmethod
    def write(cls, settings: TextAutoencoderData, examples: Sequence[TextLine], path: Path) -> list[str]:
        return ["--data", str(write_lines(path.with_suffix(".txt"), [one.source for one in examples]))]

    @classmethod
    def recommend(cls, splits: Splits[TextLine], size: Size) -> dict[str, Any]:
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
    def identity(cls, example: TextLine) -> bytes:
        return f"{example.source}\n".encode()


def _sentences(count: int, seed: int, part: str) -> list[TextLine]:
    return [
        TextLine(example.source_text, number) for number, example in enumerate(generate(count, seed, part), start=1)
    ]
