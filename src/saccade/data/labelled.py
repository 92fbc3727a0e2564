"""Read labelled texts: columns of a CSV, TSV or JSONL file, or lines with a label and a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from saccade.data.labels import LabelReport, collect
from saccade.data.lines import choose_encoding, read_lines
from saccade.data.tables import TABLES, note_skipped, read_columns, refuse_or_skip, table_format

__all__ = ["LabelledText", "read_labelled", "split_label"]


@dataclass(frozen=True)
class LabelledText:
    """A text and its label."""

    text: str
    label: str
    line: int
    file: str
    kind: str = ""  # the kind of text, if it is built in; scores are also given for each kind

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
    skip_bad: bool = False,
) -> tuple[list[LabelledText], LabelReport]:
    """Read the labelled texts in a file: a table, judging by its suffix or its tabs, or lines with a label, a space and
    a text.

    If columns are chosen by name and a table has no header, its first column is the label. Blank lines are skipped. A
    label without a text, or a text without a label, is an error; with ``skip_bad`` it is skipped and counted.
    """
    bad: list[str] | None = [] if skip_bad else None
    if table_format(path) in TABLES:
        columns = (label_column, text_column)
        notes, rows = read_columns(path, columns, header=header, encoding=encoding, numbers=(label_column,), bad=bad)
    else:
        name, notes = choose_encoding(path, encoding)
        rows = ((number, list(split_label(line))) for number, line in read_lines(path, name))
    texts, report = collect(str(path), _texts(str(path), rows, bad), unit="texts", notes=notes)
    return texts, replace(report, notes=(*report.notes, *note_skipped(bad)))


def split_label(line: str) -> tuple[str, str]:
    """Split a line into its label and its text."""
    label, _, text = line.strip().partition("\t" if "\t" in line else " ")
    return label, text


def _texts(file: str, rows: Iterator[tuple[int, list[str]]], bad: list[str] | None) -> Iterator[LabelledText]:
    for line, cells in rows:
        label, text = (" ".join(cell.split()) for cell in cells)
        if not label and not text:
            continue
        if text and label:
            yield LabelledText(text, label, line, file)
        else:
            missing = "the text has no label" if text else f"the label {label!r} has no text"
            refuse_or_skip(f"{file}, line {line}: {missing}; expected a label and a text.", bad)
