"""Where the text of a language model comes from: the ``[data]`` table of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from saccade.data.documents import Document, Unit, document_rows, read_documents, read_text_column, split_end
from saccade.data.lines import choose_encoding
from saccade.data.paths import column, part_prefixes, resolve_path
from saccade.errors import OptionError
from saccade.models import Config
from saccade.tasks.base.task import Splits

__all__ = ["TextData", "read_text", "read_text_splits", "text_table"]

TABLES = (".tsv", ".csv", ".jsonl")
#: How a report says what a document is.
UNITS: dict[Unit, str] = {"file": "the whole file", "line": "a line", "paragraph": "the lines up to a blank one"}


class TextData(Config):
    """Plain text, or one column of a table; paths may use ~ and $SACCADE_DATA."""

    text: str | None = Field(None, description="A plain text file")
    documents: Unit = Field(
        "file", description="What a document is: file, line or paragraph (separated by blank lines)"
    )
    labelled: bool = Field(False, description="Each line begins with a label, which is left out")
    table: str | None = Field(None, description="A .tsv, .csv or .jsonl file instead")
    column: str = Field("text", description="Text column: its name, or its number counted from 0")
    validation_text: str | None = Field(
        None, description="Decides which model is best; without it, the end of the training text does (see validation)"
    )
    validation_table: str | None = Field(None, description="A table instead of validation_text")
    test_text: str | None = Field(None, description="Scored once, at the end")
    test_table: str | None = Field(None, description="A table instead of test_text")
    validation: float = Field(
        0.1, ge=0, lt=1, description="Share of the text, from its end, held out for validation if no file is given"
    )
    test: float = Field(
        0.0, ge=0, lt=1, description="Share held out for the final test if no file is given, after that for validation"
    )
    encoding: str | None = Field(None, description="Encoding of the files, such as latin-1; detected if not given")

    @model_validator(mode="after")
    def _one_origin(self) -> TextData:
        if (self.text is None) == (self.table is None):
            raise ValueError("give text or table")
        for part in ("validation", "test"):
            if getattr(self, f"{part}_text") is not None and getattr(self, f"{part}_table") is not None:
                raise ValueError(f"give {part}_text or {part}_table, not both")
        if self.labelled and self.documents != "line":
            raise ValueError('labelled goes with documents = "line"')
        if self.validation + self.test >= 1:
            raise ValueError("validation and test leave nothing to train on")
        return self


def text_table(files: Sequence[Path], columns: str | None) -> dict[str, Any]:
    """The ``[data]`` table of a file to train on, and perhaps of one to validate with and of one to test with."""
    if not 1 <= len(files) <= 3:
        raise OptionError(f"A language model takes one file of text, or two, or three; not {len(files)}.")
    keys = ["table" if file.suffix.lower() in TABLES else "text" for file in files]
    if columns is not None and "table" not in keys:
        raise OptionError("--columns goes with a .tsv, .csv or .jsonl file.")
    parts = part_prefixes(files)
    found = {f"{part}{key}": str(file) for part, key, file in zip(parts, keys, files, strict=True)}
    return found | ({"column": columns} if columns is not None else {})


def read_text(data: TextData) -> list[Document]:
    """The documents of the first file, as they are."""
    return _read(data, "")[1]


def read_text_splits(data: TextData) -> Splits[Document]:
    """The end of the text, or files of their own, are held out."""
    path, documents = _read(data, "")
    rows, notes = document_rows(path, documents), [*choose_encoding(path, data.encoding)[1]]
    if data.text is not None:
        rows.append(("a document is", UNITS[data.documents]))
    held_out: dict[str, list[Document]] = {}
    for part in ("validation", "test"):
        if getattr(data, f"{part}_text") is not None or getattr(data, f"{part}_table") is not None:
            path, held_out[part] = _read(data, f"{part}_")
            notes += choose_encoding(path, data.encoding)[1]
            rows += [(f"{part}: {what}", value) for what, value in document_rows(path, held_out[part])]
    shares = [0.0 if part in held_out else getattr(data, part) for part in ("validation", "test")]
    train, *ends = split_end(documents, shares)
    for part, end in zip(("validation", "test"), ends, strict=True):
        if part not in held_out:
            held_out[part] = end
            if end:
                size = sum(len(document.text) for document in end)
                rows.append((f"{part}: characters", f"{size:,}, the end of the text from line {end[0].line}"))
    return Splits(train, held_out["validation"], held_out["test"], rows, notes).require_some()


def _read(data: TextData, part: str) -> tuple[Path, list[Document]]:
    table = getattr(data, f"{part}table")
    if table is not None:
        path = resolve_path(table)
        return path, read_text_column(path, column(data.column), data.encoding)
    path = resolve_path(getattr(data, f"{part}text"))
    return path, read_documents(path, data.documents, labelled=data.labelled, encoding=data.encoding)
