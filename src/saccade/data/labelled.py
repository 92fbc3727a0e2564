"""Read labelled texts: columns of a CSV, TSV or JSONL file, or lines with a label and a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from saccade.data.labels import LabelReport, collect
from saccade.data.lines import choose_encoding, read_lines
from saccade.data.tables import TABLES, read_columns, table_format
from saccade.errors import FileError

__all__ = ["LabelledText", "read_labelled", "split_label"]


@dataclass(frozen=True)
class LabelledText:
    """A text and its label."""

    text: str
    label: str
    line: int
    file: str

    @property
    def source(self) -> str:
        return self.text

    @property
    def length(self) -> int:
        return len(self.text.split())

    @property
    def labels(self) -> tuple[str]:
        return (self.label,)

    @property
    def label_lines(self) -> tuple[int]:
        return (self.line,)


def read_labelled(
    path: str | Path,
    text_column: str | int = "text",
    label_column: str | int = "label",
    *,
    header: bool | None = None,
    encoding: str | None = None,
) -> tuple[list[LabelledText], LabelReport]:
    """Read the labelled texts in a file: a table, judging by its suffix or its tabs, or lines with a label, a space and
    a text.

    If columns are chosen by name and a table has no header, its first column is the label. Blank lines are skipped. A
    label without a text, or a text without a label, is an error.
    """
    if table_format(path) in TABLES:
        columns = (label_column, text_column)
        notes, rows = read_columns(path, columns, header=header, encoding=encoding, numbers=(label_column,))
    else:
        name, notes = choose_encoding(path, encoding)
        rows = ((number, list(split_label(line))) for number, line in read_lines(path, name))
    return collect(str(path), _texts(str(path), rows), unit="texts", notes=notes)


def split_label(line: str) -> tuple[str, str]:
    """Split a line into its label and its text."""
    label, _, text = line.strip().partition("\t" if "\t" in line else " ")
    return label, text


def _texts(file: str, rows: Iterator[tuple[int, list[str]]]) -> Iterator[LabelledText]:
    for line, cells in rows:
        label, text = (" ".join(cell.split()) for cell in cells)
        if not label and not text:
            continue
        if not text:
            raise FileError(f"{file}, line {line}: the label {label!r} has no text; expected a label and a text.")
        if not label:
            raise FileError(f"{file}, line {line}: the text has no label; expected a label and a text.")
        yield LabelledText(text, label, line, file)
