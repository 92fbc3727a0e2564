"""Read the text of a language model, as the ``[data]`` table of a recipe describes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from saccade.data.documents import (
    Document,
    LongText,
    Unit,
    document_rows,
    read_documents,
    read_text_column,
    split_end,
)
from saccade.data.lines import choose_encoding, suffix
from saccade.data.paths import column, part_prefixes, resolve_path
from saccade.data.tables import TABLES, refuse_separator
from saccade.errors import OptionError
from saccade.models import Config
from saccade.tasks.base.data import SEPARATOR, DataReader, Say, Size, Splits, write_lines

__all__ = ["LanguageModelFiles", "TextData"]

#: What a document is, in the words of the report.
UNITS: dict[Unit, str] = {"file": "the whole file", "line": "a line", "paragraph": "the lines up to a blank line"}


class TextData(Config):
    """Plain text, or one column of a table; paths may use ~ and $SACCADE_DATA."""

    text: str | None = Field(None, description="A plain text file")
    documents: Unit = Field(
        "file", description="What a document is: file, line or paragraph (separated by blank lines)"
    )
    labelled: bool = Field(False, description="Whether each line starts with a label, which is then left out")
    table: str | None = Field(None, description="A .tsv, .csv or .jsonl file, instead of text")
    column: str = Field("text", description="Text column: its name, or its number, counting from 0")
    validation_text: str | None = Field(
        None, description="Validation text, used to select the best model; by default, the end of the training text"
    )
    validation_table: str | None = Field(None, description="A table, instead of validation_text")
    test_text: str | None = Field(None, description="Text that is scored once, at the end")
    test_table: str | None = Field(None, description="A table, instead of test_text")
    validation: float = Field(
        0.1, ge=0, lt=1, description="Fraction at the end of the text held out for validation if no file is given"
    )
    test: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Fraction of the data, after the validation part, held out for the final test if no file is given",
    )
    separator: str | None = SEPARATOR
    encoding: str | None = Field(None, description="Encoding of the files, such as latin-1; detected if not given")

    @model_validator(mode="after")
    def _check(self) -> TextData:
        builtin = getattr(self, "builtin", None)
        if sum(origin is not None for origin in (self.text, self.table, builtin)) != 1:
            raise ValueError("give either text or table" + (", or builtin" if hasattr(self, "builtin") else ""))
        for part in ("validation", "test"):
            if getattr(self, f"{part}_text") is not None and getattr(self, f"{part}_table") is not None:
                raise ValueError(f"give either {part}_text or {part}_table, not both")
        if self.labelled and self.documents != "line":
            raise ValueError('labelled needs documents = "line"')
        if self.validation + self.test >= 1:
            raise ValueError("validation and test leave nothing to train on")
        return self


#: The context, the width, the number of layers, the tokens per batch and the maximum number of updates of each size.
NETWORKS: dict[Size, tuple[int, int, int, int, int]] = {
    "tiny": (64, 64, 2, 1024, 6_000),
    "small": (128, 128, 4, 2048, 8_000),
    "medium": (256, 256, 4, 4096, 30_000),
}
#: Texts of at most this many characters are read character by character; in longer texts, a token has about 4.
LETTER_BY_LETTER = 5_000_000


class LanguageModelFiles(DataReader[Document]):
    """Reads plain texts, or a column of a table. The validation and test texts come from the end of the training text,
    or from separate files."""

    settings = TextData
    read_as = ("documents", "labelled", "column", "separator", "encoding")
    column_fields = ("column",)

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        if not 1 <= len(files) <= 3:
            raise OptionError(f"Give one to three text files, for training, validation and test, not {len(files)}.")
        keys = ["table" if suffix(file) in TABLES else "text" for file in files]
        if columns is not None and "table" not in keys:
            raise OptionError("--columns only applies to .tsv, .csv and .jsonl files.")
        parts = part_prefixes(files)
        found = {f"{part}{key}": str(file) for part, key, file in zip(parts, keys, files, strict=True)}
        return found | ({"column": columns} if columns is not None else {})

    @classmethod
    def read(cls, settings: TextData, seed: int) -> Splits[Document]:
        path, documents = _read(settings, "")
        rows, notes = document_rows(path, documents), [*choose_encoding(path, settings.encoding)[1]]
        if settings.text is not None:
            rows.append(("a document is", UNITS[settings.documents]))
        held_out: dict[str, list[Document]] = {}
        for part in ("validation", "test"):
            if getattr(settings, f"{part}_text") is not None or getattr(settings, f"{part}_table") is not None:
                path, held_out[part] = _read(settings, f"{part}_")
                rows += [(f"{part}: {what}", value) for what, value in document_rows(path, held_out[part])]
                notes += choose_encoding(path, settings.encoding)[1]
        shares = [0.0 if part in held_out else getattr(settings, part) for part in ("validation", "test")]
        train, *ends = split_end(documents, shares)
        for part, end in zip(("validation", "test"), ends, strict=True):
            if part not in held_out:
                held_out[part] = end
                if end:
                    size = sum(document.characters for document in end)
                    rows.append((f"{part}: characters", f"{size:,}, the end of the text from line {end[0].line}"))
        return Splits(train, held_out["validation"], held_out["test"], rows, notes).require_some()

    @classmethod
    def read_for_scoring(cls, settings: TextData, say: Say = lambda note: None) -> list[Document]:
        path, documents = _read(settings, "")
        for note in choose_encoding(path, settings.encoding)[1]:
            say(note)
        say(
            f"the texts are column {settings.column}"
            if settings.text is None
            else f"a document is {UNITS[settings.documents]}"
        )
        return documents

    @classmethod
    def write(cls, settings: TextData, examples: Sequence[Document], path: Path) -> list[str]:
        """Write texts in the way that the training file has them: a single text unchanged, or each document as a line,
        a paragraph or a row of a table."""
        texts = (one.text for one in examples)
        if settings.text is None:
            place = column(settings.column)
            rows = ([""] * place + [text] if isinstance(place, int) else {place: text} for text in texts)
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            return ["--data", str(write_lines(path.with_suffix(".jsonl"), lines))]
        file = path.with_suffix(".txt")
        if settings.documents == "file":
            with file.open("wb") as stream:
                stream.writelines(block.encode() for one in examples for block in one.blocks())
        elif settings.documents == "paragraph":
            write_lines(file, [f"{text}\n" for text in texts])
        else:
            write_lines(file, [f"{'_ ' if settings.labelled else ''}{text}" for text in texts])
        return ["--data", str(file)]

    @classmethod
    def suitable(cls, splits: Splits[Document]) -> Size:
        characters = sum(document.characters for document in splits.train)
        return "tiny" if characters <= 100_000 else "small" if characters <= 500_000 else "medium"

    @classmethod
    def recommend(cls, splits: Splits[Document], size: Size) -> dict[str, Any]:
        characters = sum(document.characters for document in splits.train)
        context, width, layers, batch, most = NETWORKS[size]
        letters = characters <= LETTER_BY_LETTER
        tokens = characters if letters else characters // 4
        return {
            "text": {
                "kind": "character" if letters else "bpe",
                "vocabulary": 1_000 if letters else 8_000,
                "context": min(context, max(8, characters // 20)),
            },
            "model": {
                "kind": "transformer",
                "width": width,
                "num_heads": width // 64 if width >= 256 else 4,
                "decoder_layers": layers,
                "feedforward_width": 4 * width,
                "activation": "gelu",
                "position": "rotary",
                "bias": False,
                "dropout": 0.1,
            },
            "training": {
                "steps": min(most, max(1_000, 10 * tokens // batch)),
                "batch_tokens": batch,
                "lr": 2e-3 if width <= 128 else 1e-3,
                "lr_end": 0.05,
                "weight_decay": 0.1,
            },
        }

    @classmethod
    def identity(cls, example: Document) -> bytes:
        if isinstance(example, LongText):
            digest = hashlib.sha256()
            for block in example.blocks():
                digest.update(block.encode())
            return digest.digest()
        return f"{example.text}\0".encode()


def _read(data: TextData, part: str) -> tuple[Path, list[Document]]:
    table = getattr(data, f"{part}table")
    if table is not None:
        path = resolve_path(table)
        return path, read_text_column(path, column(data.column), data.encoding, data.separator)
    path = resolve_path(getattr(data, f"{part}text"))
    refuse_separator(path, data.separator)
    return path, read_documents(path, data.documents, labelled=data.labelled, encoding=data.encoding)
